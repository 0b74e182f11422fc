package plan

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// DryRun collects what a dry run would have done. A nil DryRun means that the execution
// is not one. It is safe for concurrent use.
type DryRun struct {
	calls toolcall.Plan

	mu     sync.Mutex
	skills map[string]string // name -> code
	end    *reply.PlanEnd
}

// Calls returns the collector of calls; nil if the execution is not a dry run.
func (r *DryRun) Calls() *toolcall.Plan {
	if r == nil {
		return nil
	}
	return &r.calls
}

// End describes where code used a result that is unknown until its call is made.
type End struct {
	Call int    `json:"call"`
	Line int    `json:"line"` // of the code
	Why  string `json:"why"`
}

// maxEndReason limits End.Why, in bytes.
const maxEndReason = 1000

// SetEnd ends the plan. Only the first end counts.
func (r *DryRun) SetEnd(e End) error {
	if r == nil {
		return fault.New(fault.Invalid, "plan_ends can be called only in a dry run")
	}
	if e.Line < 0 || len(e.Why) > maxEndReason {
		return fault.New(fault.Invalid, "plan_ends was called with an invalid line or reason")
	}
	n, first := r.calls.End()
	if !first {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = &reply.PlanEnd{Call: n, Line: e.Line, Note: fmt.Sprintf("the plan ends after call %d: line %d %s, which is unknown until the "+
		"call is made", n, e.Line, e.Why)}
	return nil
}

// AdjustOutcome turns the outcome of a dry run whose plan ended early into a success.
func (r *DryRun) AdjustOutcome(o sandbox.Outcome) sandbox.Outcome {
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

// SaveSkill keeps a skill in memory for the rest of the dry run.
func (r *DryRun) SaveSkill(d skill.Draft) error {
	if err := d.Check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.skills == nil {
		r.skills = map[string]string{}
	}
	r.skills[d.Name] = d.Code
	return nil
}

// FindSkill returns a skill that the dry run has saved.
func (r *DryRun) FindSkill(name string) (skill.Skill, bool) {
	if r == nil {
		return skill.Skill{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	code, ok := r.skills[name]
	return skill.Skill{Name: name, Code: code, Metadata: skill.Metadata{Name: name}}, ok
}

// AddTo adds the plan to the result, and stores it for approval. subset names the servers that the
// dry run had.
func (r *DryRun) AddTo(ctx context.Context, res *reply.Result, log *journal.Log, subset string) error {
	if r == nil {
		return nil
	}
	calls := r.calls.Calls()
	r.mu.Lock()
	res.Plan, res.PlanEndsAt = number(calls), r.end
	r.mu.Unlock()
	if !res.Success() || len(calls) == 0 {
		return nil
	}
	var err error
	res.PlanID, err = save(ctx, log, stored{Calls: calls, Made: time.Now(), Subset: subset})
	return err
}
