package toolcall

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// Bounds on a plan.
const (
	maxPlanned      = 200     // calls
	maxPlannedBytes = 1 << 20 // of their arguments
)

// Plan collects the calls of a dry run that may change something, instead of making
// them. It is safe for concurrent use.
type Plan struct {
	mu    sync.Mutex
	calls []Planned
	bytes int
	ended bool
}

// Planned is one call of a plan.
type Planned struct {
	tool.Ref
	Args       json.RawMessage  `json:"arguments"` // as they are sent, except where References replace a null
	References []tool.Reference `json:"references,omitempty"`
	Schema     string           `json:"schema"` // hash of the tool's definition
}

// Calls returns the planned calls in order; never nil.
func (p *Plan) Calls() []Planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Planned{}, p.calls...)
}

// End closes the plan to further calls and returns how many it has; first is false
// if it was closed before.
func (p *Plan) End() (calls int, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, p.ended = !p.ended, true
	return len(p.calls), first
}

// add appends a call and returns its number, from 1.
func (p *Plan) add(c call) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == maxPlanned || p.bytes+len(c.Args) > maxPlannedBytes {
		return 0, errPlanFull(c)
	}
	p.bytes += len(c.Args)
	p.calls = append(p.calls, Planned{c.Ref, c.Args, c.References, catalog.Hash(c.tool.Definition)})
	return len(p.calls), nil
}

// checkOpen returns an error if the plan has ended or the call's references are
// invalid. A nil Plan accepts only calls without references.
func (p *Plan) checkOpen(c tool.Call) error {
	if p == nil {
		if len(c.References) > 0 {
			return fault.New(fault.Invalid, "%s was not called: only a dry run refers to results of planned calls", c.Ref)
		}
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return fault.New(fault.Denied, "%s was not called: the plan of this dry run has ended", c.Ref)
	}
	for _, r := range c.References {
		if r.Call < 1 || r.Call > len(p.calls) {
			return fault.New(fault.Invalid, "%s was not planned: it refers to the result of call %d, and there are %d", c.Ref, r.Call,
				len(p.calls))
		}
	}
	return nil
}

// referencePaths returns the paths of the references in decoded arguments. Each must
// lead to a null.
func referencePaths(c tool.Call, args map[string]any) (at [][]string, err error) {
	for _, r := range c.References {
		if v, ok := r.Argument.Find(args); !ok || v != nil || len(r.Argument) == 0 {
			return nil, fault.New(fault.Invalid, "%s was not planned: its arguments have no placeholder at %s", c.Ref, r.Argument)
		}
		var path []string
		for _, step := range r.Argument {
			path = append(path, fmt.Sprint(step))
		}
		at = append(at, path)
	}
	return at, nil
}

// planner adds calls to the plan that may change something or that refer to the
// result of a planned call. It makes the others.
type planner struct {
	next  layer
	owner Owner
	stack rules
}

func errPlanFull(c call) error {
	return fault.New(fault.Exhausted, "%s was not planned: a plan has at most %d calls with %d MiB of arguments", c.Ref, maxPlanned,
		maxPlannedBytes>>20).
		WithHint("do less in one execution")
}

// isPlanned reports whether a call in a dry run is recorded and not made.
func isPlanned(c call) bool { return !c.tool.TrustedHints.Reads() || len(c.References) > 0 }

func (p planner) handle(ctx context.Context, c call) (answer, error) {
	if !isPlanned(c) {
		return p.next.handle(ctx, c)
	}
	return p.add(ctx, c)
}

// add adds the call to the plan. The result contains its number, and the schema of the
// result that the call would have.
func (p planner) add(ctx context.Context, c call) (answer, error) {
	n, err := p.owner.Plan.add(c)
	if err != nil {
		return answer{}, err
	}
	return answer{Result: tool.Result{Planned: n, PlannedSchema: p.resultSchema(ctx, c)}, outcome: outcomePlanned}, nil
}

// resultSchema returns the schema of a tool's results, declared or inferred; nil if
// neither is known.
func (p planner) resultSchema(ctx context.Context, c call) json.RawMessage {
	const most = 64 << 10
	if declared, _ := c.tool.Returns(); len(declared) > 0 && len(declared) <= most {
		return declared
	}
	if seen, ok, err := p.owner.Home.Shapes.Find(ctx, c.Ref); err == nil && ok {
		if b := seen.Schema(); len(b) <= most {
			return b
		}
	}
	return nil
}

// Resolve returns the arguments of a planned call with its references replaced by
// results, the decoded JSON results of the calls before it, in order.
func (p Planned) Resolve(results []any) (json.RawMessage, error) {
	if len(p.References) == 0 {
		return p.Args, nil
	}
	ordered, err := schema.DecodeObject(p.Args)
	if err != nil {
		return nil, err
	}
	args := ordered.Map()
	for _, r := range p.References {
		if r.Call < 1 || r.Call > len(results) {
			return nil, fault.New(fault.Invalid, "%s refers to the result of call %d, which does not exist", p.Ref, r.Call)
		}
		v, ok := r.Result.Find(results[r.Call-1])
		if !ok {
			return nil, fault.New(fault.Invalid, "%s needs %s of the result of call %d, which has no such part", p.Ref, r.Result, r.Call)
		}
		if !r.Argument.Put(args, v) {
			return nil, fault.New(fault.Invalid, "%s has no argument at %s", p.Ref, r.Argument)
		}
	}
	return json.Marshal(fillNulls(ordered, args))
}

// fillNulls returns v, keeping the order of Objects, with nulls replaced by the
// values of m at the same place.
func fillNulls(v, m any) any {
	switch v := v.(type) {
	case schema.Object:
		for i := range v {
			v[i].Value = fillNulls(v[i].Value, m.(map[string]any)[v[i].Name])
		}
	case []any:
		for i := range v {
			v[i] = fillNulls(v[i], m.([]any)[i])
		}
	case nil:
		return m
	}
	return v
}

// CheckUnchanged returns an error if the definition of the tool has changed since
// the call was planned, or if the owner cannot call the tool any more.
func (s *Stack) CheckUnchanged(ctx context.Context, o Owner, p Planned) error {
	c, _, err := s.resolve(ctx, o.viewer(), tool.Call{Ref: p.Ref})
	if err != nil {
		return err
	}
	if catalog.Hash(c.tool.Definition) != p.Schema {
		return fault.New(fault.Denied, "the definition of %s has changed since the plan was made", p.Ref).
			WithHint("make a new plan with a dry run")
	}
	return nil
}
