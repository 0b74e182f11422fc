package toolcall

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// validator checks the arguments against the tool's schema, and asks the upstream whether it
// would make the call. It passes on canonical bytes, so that all later callers see the same
// arguments: decoded once, strictly, and encoded in the order of the caller, on which some
// servers depend.
type validator struct {
	next  layer
	check tool.Checker // of the upstream; nil if it has none
	plan  *Plan
	stack *Stack
}

func (v validator) handle(ctx context.Context, c call) (answer, error) {
	if err := v.plan.checkOpen(c.Call); err != nil {
		return answer{}, err
	}
	ordered, err := schema.DecodeObject(c.Args)
	if err != nil {
		return answer{}, fault.New(fault.Invalid, "the arguments of %s: %s", c.Ref, err)
	}
	arguments := v.stack.Schema(c.tool.Definition)
	ordered = arguments.Fill(ordered)
	args := ordered.Map()
	open, err := referencePaths(c.Call, args)
	if err != nil {
		return answer{}, err
	}
	if wrong := arguments.Check(args, open...); len(wrong) > 0 {
		return answer{}, invalidArguments(c.Call, wrong)
	}
	if c.Args, err = json.Marshal(ordered); err == nil {
		c.SortedArgs, err = json.Marshal(args)
	}
	if err != nil {
		return answer{}, fault.Wrap(fault.Invalid, err, "the arguments of %s cannot be encoded as JSON", c.Ref)
	}
	if v.check == nil {
		return v.next.handle(ctx, c)
	}
	destination, err := v.check.Check(ctx, c.Call)
	if err != nil {
		return answer{}, err
	}
	a, err := v.next.handle(ctx, c)
	a.destination = destination
	return a, err
}

// maxProblems limits the problems that one error lists.
const maxProblems = 10

func invalidArguments(c tool.Call, wrong []schema.Problem) error {
	var all []string
	for _, p := range wrong[:min(maxProblems, len(wrong))] {
		all = append(all, p.String())
	}
	e := fault.New(fault.Invalid, "%s was not called: %s", c.Ref, strings.Join(all, "; "))
	if c.Execution == "" { // a passthrough client has the schema, but not get_tool_definition
		return e.WithHint("see its input schema")
	}
	return e.WithHint("get_tool_definition(%q) returns its input schema", c.Ref.String())
}
