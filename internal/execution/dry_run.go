package execution

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// dryRun collects what a dry run would have done. A nil dryRun means that the
// execution is not one.
type dryRun struct {
	toolcall.Plan

	mu     sync.Mutex
	skills map[string]string // name -> code
	end    *reply.PlanEnd
}

func numberCalls(calls []toolcall.Planned) []reply.PlannedCall {
	all := []reply.PlannedCall{}
	for i, c := range calls {
		all = append(all, reply.PlannedCall{Call: i + 1, Ref: c.Ref, Args: c.Args, References: c.References})
	}
	return all
}

// plan returns the plan; nil if the execution is not a dry run.
func (r *dryRun) plan() *toolcall.Plan {
	if r == nil {
		return nil
	}
	return &r.Plan
}

// planEndArgs are the arguments of plan_ends: the code used an unknown result.
type planEndArgs struct {
	Call int    `json:"call"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// maxEndReason limits planEndArgs.Why, in bytes.
const maxEndReason = 1000

func (h *host) endPlan(a planEndArgs) error {
	if h.dry == nil {
		return fault.New(fault.Invalid, "plan_ends can be called only in a dry run")
	}
	if a.Line < 0 || len(a.Why) > maxEndReason {
		return fault.New(fault.Invalid, "plan_ends was called with an invalid line or reason")
	}
	n, first := h.dry.End()
	if !first {
		return nil
	}
	h.dry.mu.Lock()
	defer h.dry.mu.Unlock()
	h.dry.end = &reply.PlanEnd{Call: n, Line: a.Line, Note: fmt.Sprintf("the plan ends after call %d: line %d %s, which is unknown until the call is made", n, a.Line, a.Why)}
	return nil
}

// adjustOutcome turns the outcome of a dry run whose plan ended early into a success.
func (r *dryRun) adjustOutcome(o sandbox.Outcome) sandbox.Outcome {
	if r == nil {
		return o
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil && o.Status.Reusable() {
		o = sandbox.Outcome{Status: sandbox.Completed, Images: o.Images, Usage: o.Usage}
	}
	return o
}

// planEnd returns where the plan ended early; nil if it did not.
func (r *dryRun) planEnd() *reply.PlanEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// saveSkill keeps a skill in memory for the rest of the dry run.
func (r *dryRun) saveSkill(a saveSkillArgs) error {
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

// findSkill returns a skill that the dry run has saved.
func (r *dryRun) findSkill(name string) (any, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	code, ok := r.skills[name]
	return skill.Skill{Name: name, Code: code, Metadata: skill.Metadata{Name: name}}, ok
}

// storePlan adds the plan of a dry run to the result, and stores it for approval.
func (h *host) storePlan(ctx context.Context, res *reply.Result) error {
	if h.dry == nil {
		return nil
	}
	calls := h.dry.Calls()
	res.Plan, res.PlanEndsAt = numberCalls(calls), h.dry.planEnd()
	if !res.Success() || len(calls) == 0 {
		return nil
	}
	var err error
	res.PlanID, err = savePlan(ctx, h.home, storedPlan{Calls: calls, Made: time.Now()})
	return err
}
