package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// rehearsal is what a dry run has done instead of doing it. A nil rehearsal is none.
type rehearsal struct {
	toolcall.Plan

	mu     sync.Mutex
	skills map[string]string // name -> code
	ends   *PlanEnd
}

// PlanEnd says where a dry run had to know what a call that was not made answers.
type PlanEnd struct {
	Call int    `json:"call"` // the last call of the plan
	Line int    `json:"line"` // of the code, that looked
	Note string `json:"note"` // what that means
}

// PlannedCall is a call of a plan, as an answer shows it.
type PlannedCall struct {
	Call int `json:"call"` // its number, from 1
	tool.Ref
	Args       json.RawMessage  `json:"arguments"`
	References []tool.Reference `json:"references,omitempty"` // what stands in place of null in the arguments
}

func numbered(calls []toolcall.Planned) []PlannedCall {
	all := []PlannedCall{}
	for i, c := range calls {
		all = append(all, PlannedCall{i + 1, c.Ref, c.Args, c.References})
	}
	return all
}

// plan is that of the dry run, nil without one.
func (r *rehearsal) plan() *toolcall.Plan {
	if r == nil {
		return nil
	}
	return &r.Plan
}

// planEnds is what code says when it looks at what is not known.
type planEnds struct {
	Call int    `json:"call"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// maxWhy bounds what code says of why its plan ends, in bytes.
const maxWhy = 1000

func (h *host) planEnds(a planEnds) error {
	if h.dry == nil {
		return fault.New(fault.Invalid, "only a dry run has a plan that ends")
	}
	if a.Line < 0 || len(a.Why) > maxWhy {
		return fault.New(fault.Invalid, "that is no place where a plan ends")
	}
	n, first := h.dry.End()
	if !first {
		return nil
	}
	h.dry.mu.Lock()
	defer h.dry.mu.Unlock()
	h.dry.ends = &PlanEnd{Call: n, Line: a.Line, Note: fmt.Sprintf("the plan ends after call %d: line %d %s, which is not known before the call is made", n, a.Line, a.Why)}
	return nil
}

// outcome is that of the code, which a plan that ended early is a good end of.
func (r *rehearsal) outcome(o sandbox.Outcome) (sandbox.Outcome, *PlanEnd) {
	if r == nil {
		return o, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends != nil && o.Status.Reusable() {
		o = sandbox.Outcome{Status: sandbox.Completed, Images: o.Images, Usage: o.Usage}
	}
	return o, r.ends
}

// save keeps a skill for the rest of the dry run.
func (r *rehearsal) save(a saveSkill) error {
	if err := skill.Check(a.Name, a.Code, a.Description, a.Tags); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.skills == nil {
		r.skills = map[string]string{}
	}
	r.skills[a.Name] = a.Code
	return nil
}

// find returns a skill that the dry run has saved.
func (r *rehearsal) find(name string) (any, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	code, ok := r.skills[name]
	return skill.Skill{Name: name, Code: code, Metadata: skill.Metadata{Name: name}}, ok
}

// keepPlan takes the plan of a dry run into the result, and keeps it to be approved.
func (r *Runner) keepPlan(ctx context.Context, h *host, res *Result, ends *PlanEnd) error {
	if h.dry == nil {
		return nil
	}
	calls := h.dry.Calls()
	res.Plan, res.PlanEndsAt = numbered(calls), ends
	if !res.Success() || len(calls) == 0 {
		return nil
	}
	var err error
	res.PlanID, err = keep(ctx, h.home, keptPlan{Calls: calls, Made: time.Now()})
	return err
}
