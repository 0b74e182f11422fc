package toolcall

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// validated holds the arguments against the tool's schema. What goes on is the
// same bytes for everybody: decoded once, strictly, and written again in the order
// of the caller, which some servers need.
type validated struct {
	next  tool.Caller
	plan  *Plan
	stack *Stack
}

func (v validated) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := v.plan.open(c); err != nil {
		return tool.Result{}, err
	}
	t, err := v.stack.find(c.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	ordered, err := schema.DecodeObject(c.Args)
	if err != nil {
		return tool.Result{}, fault.New(fault.Invalid, "the arguments of %s: %s", c.Ref, err)
	}
	args := ordered.Map()
	open, err := places(c, args)
	if err != nil {
		return tool.Result{}, err
	}
	if wrong := v.stack.Schema(t.Definition).Check(args, open...); len(wrong) > 0 {
		return tool.Result{}, refusal(c, wrong)
	}
	if c.Args, err = json.Marshal(ordered); err == nil {
		c.SortedArgs, err = json.Marshal(args)
	}
	if err != nil {
		return tool.Result{}, fault.Wrap(fault.Invalid, err, "the arguments of %s are no JSON", c.Ref)
	}
	return v.next.Call(ctx, c)
}

// mostProblems are said at once.
const mostProblems = 10

func refusal(c tool.Call, wrong []schema.Problem) error {
	var all []string
	for _, p := range wrong[:min(mostProblems, len(wrong))] {
		all = append(all, p.String())
	}
	e := fault.New(fault.Invalid, "%s was not called: %s", c.Ref, strings.Join(all, "; "))
	if c.Execution == "" { // whoever calls without code has the schema, and no such function
		return e.WithHint("its input schema says what it takes")
	}
	return e.WithHint("get_tool_definition(%q) says what it takes", c.Ref.String())
}
