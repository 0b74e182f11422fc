package execution

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// A plan is stored as the journal's record of an execution that has not started:
// encrypted, applied by one process at a time, and deleted when it has been applied.

// planTTL is how long a plan can be approved.
const planTTL = 24 * time.Hour

// storedPlan is a plan on disk.
type storedPlan struct {
	Calls []toolcall.Planned `json:"calls"`
	Made  time.Time          `json:"made"`
}

// hash identifies the calls of the plan, for its approval.
func (p storedPlan) hash() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot happen: it was decoded from JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const planPrefix = "plan_"

// IsPlan reports whether an id is that of a plan, not of an execution of code.
func IsPlan(id string) bool { return strings.HasPrefix(id, planPrefix) }

// savePlan stores a plan and returns its id; "" if there is no journal.
func savePlan(ctx context.Context, home *home.Home, p storedPlan) (string, error) {
	id := planPrefix + strings.ToLower(rand.Text())
	run := home.Journal.NewRecord(id, func() ([]byte, error) { return json.Marshal(p) }, false)
	if run == nil {
		return "", nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := run.Flush(ctx); err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "the dry run ended, but its plan could not be stored: %s", fault.Message(err))
	}
	return id, run.End(ctx, journal.Planned)
}

// applyPlan asks the user to approve a plan and then makes exactly its calls. The
// handle is like that of an execution, with the approval as its question. An error
// means that the plan cannot be applied: it was applied before, has expired, or a tool
// in it has changed.
func (r *Runner) applyPlan(ctx context.Context, h *home.Home, id string) (*Execution, error) {
	if r.cfg.Tools == nil {
		return nil, noPlan(id)
	}
	run, request, err := h.Journal.OpenRecord(ctx, id, func([]byte) bool { return false })
	if fault.KindOf(err) == fault.NotFound {
		return nil, noPlan(id)
	}
	if err != nil {
		return nil, err
	}
	p, err := r.readPlan(ctx, run, request, id)
	if err != nil {
		return nil, err
	}
	x := newRun(id)
	again, err := r.launch(ctx, h, x, func(ctx context.Context, h *home.Home) {
		c := &planApplier{executor: executor{r: r, home: h, run: x}, record: run, plan: p}
		c.exit = c.newExit()
		x.result, x.err = c.apply(ctx)
		x.result.ExecutionID = id
		c.audit()
		r.registry.markEnded(x)
		close(x.ended)
	})
	if err != nil {
		return nil, errors.Join(err, run.End(ctx, journal.Planned))
	}
	return again, nil
}

func noPlan(id string) error {
	return fault.New(fault.NotFound, "there is no plan %.60q that can be applied: it was applied or denied, or is more than %d hours old", id, int(planTTL.Hours())).
		WithHint("make a new plan with execute_code and dry_run")
}

// readPlan decodes a stored plan and checks that it is still valid. An expired one is
// deleted.
func (r *Runner) readPlan(ctx context.Context, run *journal.Record, request []byte, id string) (p storedPlan, err error) {
	if err = json.Unmarshal(request, &p); err == nil && time.Since(p.Made) < planTTL {
		for _, c := range p.Calls {
			if err = r.cfg.Tools.Calls.CheckUnchanged(ctx, c); err != nil {
				break
			}
		}
		if err == nil {
			return p, nil
		}
		_ = run.End(ctx, journal.Planned)
		return p, fault.Wrap(fault.KindOf(err), err, "the plan was not applied: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	_ = run.End(ctx, "")
	return p, noPlan(id)
}

// planApplier applies one plan.
type planApplier struct {
	executor
	record *journal.Record // the stored plan
	plan   storedPlan
	caller tool.Caller
}

func (c *planApplier) apply(ctx context.Context) (res reply.Result, err error) {
	began := time.Now()
	res.Status, res.Output = sandbox.Completed, []string{}
	if err := c.requireApproval(ctx); err != nil {
		return c.notApproved(ctx, res, err)
	}
	steps, results, cut := c.applyCalls(ctx)
	state := journal.State("")
	if c.run.resumable = cut; cut {
		state = journal.Planned
	}
	if err := c.record.End(context.WithoutCancel(ctx), state); err != nil {
		c.r.cfg.Log.Error("record the end of a plan", "plan", c.run.id, "error", err)
	}
	res.Elapsed = time.Since(began)
	res.Applied = steps
	c.explain(&res)
	value, err := json.Marshal(results)
	if err != nil {
		return res, err
	}
	return res, c.builder().SetValue(ctx, &res, value)
}

// notApproved returns the result of a plan that was not approved. A denied plan is
// deleted; another one can be resumed.
func (c *planApplier) notApproved(ctx context.Context, res reply.Result, err error) (reply.Result, error) {
	state := journal.Planned
	if fault.KindOf(err) == fault.Denied {
		state = ""
		res.Status, res.ErrorType, res.Error = sandbox.Refused, reply.TypePlan, fault.Message(err)
		err = nil
	}
	c.run.resumable = state != ""
	if wrong := c.record.End(context.WithoutCancel(ctx), state); wrong != nil {
		c.r.cfg.Log.Error("record the end of a plan", "plan", c.run.id, "error", wrong)
	}
	if err != nil {
		return notRun(ctx, err)
	}
	return res, nil
}

// applyCalls makes the calls until one is not done. It reports whether it was
// interrupted.
func (c *planApplier) applyCalls(ctx context.Context) (all []reply.AppliedCall, results []any, cut bool) {
	c.caller = c.r.cfg.Tools.Calls.For(toolcall.Owner{Home: c.home, Exit: c.exit, Run: c.record, Approved: true})
	results = []any{}
	for i, p := range c.plan.Calls {
		s := reply.AppliedCall{Call: i + 1, Ref: p.Ref, State: reply.CallNotMade}
		if len(results) == i {
			if value, err := c.applyCall(ctx, p, results); err != nil {
				s.State, s.Error = reply.CallFailed, fault.Message(err)
				if f, own := errors.AsType[*tool.Failure](err); own {
					s.Error = f.Message
					if f.Unknown {
						s.State = reply.CallUnknown
					}
				}
			} else {
				s.State, results = reply.CallDone, append(results, value)
			}
		}
		all = append(all, s)
	}
	return all, results, ctx.Err() != nil
}

// applyCall makes one call and returns its result.
func (c *planApplier) applyCall(ctx context.Context, p toolcall.Planned, results []any) (value any, err error) {
	args, err := p.Resolve(results)
	if err != nil {
		return nil, err
	}
	if err := c.r.cfg.Tools.Calls.CheckUnchanged(ctx, p); err != nil {
		return nil, err
	}
	res, err := c.caller.Call(ctx, tool.Call{Ref: p.Ref, Execution: c.run.id, Args: args})
	if err != nil {
		return nil, err
	}
	answer, ok := res.Value()
	if !ok {
		return res.Text(), nil
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber()
	err = dec.Decode(&value)
	return value, err
}

// explain describes in the result which calls were made if the plan was not applied
// completely.
func (c *planApplier) explain(res *reply.Result) {
	i := slices.IndexFunc(res.Applied, func(s reply.AppliedCall) bool { return s.State != reply.CallDone })
	if i < 0 {
		return
	}
	s := res.Applied[i]
	what := "failed"
	if s.State == reply.CallUnknown {
		what = "may have been made"
	}
	res.Status, res.ErrorType = sandbox.Raised, reply.TypePlan
	res.Error = fmt.Sprintf("call %d of the plan, %s, %s: %s; made before it and not undone: %d; not made: %d", s.Call, s.Ref, what, s.Error, i, len(res.Applied)-i-1)
	res.Hint = "the plan is closed; make a new one for the remaining calls"
}
