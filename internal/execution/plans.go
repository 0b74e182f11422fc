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

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// A plan is kept as the journal's record of an execution that has not begun: sealed,
// executed by one process at a time, and gone when it came to its end.

// planFor is how long a plan can be approved.
const planFor = 24 * time.Hour

// keptPlan is a plan on disk.
type keptPlan struct {
	Calls []toolcall.Planned `json:"calls"`
	Made  time.Time          `json:"made"`
}

// hash is one of all that will be done.
func (p keptPlan) hash() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // it was read from JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const planPrefix = "plan_"

// IsPlan reports whether an id is that of a plan, and of no execution of code.
func IsPlan(id string) bool { return strings.HasPrefix(id, planPrefix) }

// keep puts a plan on disk and returns its id; "" if no plans are kept here.
func keep(ctx context.Context, home *home.Home, p keptPlan) (string, error) {
	id := planPrefix + strings.ToLower(rand.Text())
	run := home.Journal.NewRecord(id, func() ([]byte, error) { return json.Marshal(p) }, false)
	if run == nil {
		return "", nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := run.Flush(ctx); err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "the dry run ended, but its plan could not be kept: %s", fault.Message(err))
	}
	return id, run.End(ctx, journal.Planned)
}

// carryOut has a plan approved by the person and then makes its calls, and no others.
// The handle is like that of an execution, whose question is whether it may. An
// error says that the plan cannot be carried out: it was already, has expired, or a
// tool in it has changed.
func (r *Runner) carryOut(ctx context.Context, h *home.Home, id string) (*Execution, error) {
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
	p, err := r.read(ctx, run, request, id)
	if err != nil {
		return nil, err
	}
	x := newRun(id)
	again, err := r.launch(ctx, h, x, func(ctx context.Context, h *home.Home) {
		c := &carrying{r: r, home: h, x: x, run: run, plan: p, exit: r.exit(h, x, nil, Request{})}
		x.result, x.err = c.carry(ctx)
		x.result.ExecutionID = id
		r.audit(h, x, nil)
		r.book.end(x)
		close(x.ended)
	})
	if err != nil {
		return nil, errors.Join(err, run.End(ctx, journal.Planned))
	}
	return again, nil
}

func noPlan(id string) error {
	return fault.New(fault.NotFound, "there is no plan %.60q that can be carried out: it was carried out or denied, or is more than %d hours old", id, int(planFor.Hours())).
		WithHint("make a new plan with execute_code and dry_run")
}

// read opens what a record says. One that has expired is deleted.
func (r *Runner) read(ctx context.Context, run *journal.Record, request []byte, id string) (p keptPlan, err error) {
	if err = json.Unmarshal(request, &p); err == nil && time.Since(p.Made) < planFor {
		for _, c := range p.Calls {
			if err = r.cfg.Tools.Calls.CheckUnchanged(ctx, c); err != nil {
				break
			}
		}
		if err == nil {
			return p, nil
		}
		_ = run.End(ctx, journal.Planned)
		return p, fault.Wrap(fault.KindOf(err), err, "the plan was not carried out: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	_ = run.End(ctx, "")
	return p, noPlan(id)
}

// carrying is a plan that is carried out.
type carrying struct {
	r    *Runner
	home *home.Home
	x    *run
	run  *journal.Record
	plan keptPlan
	exit *redact.Exit

	caller tool.Caller
}

// Carried is what became of one call of a plan.
type AppliedCall struct {
	Call int `json:"call"`
	tool.Ref
	State string `json:"state"` // one of the constants below
	Error string `json:"error,omitempty"`
}

// States of a call of a plan.
const (
	CallDone    = "done"
	CallFailed  = "failed"
	CallUnknown = "unknown"  // it began, and no answer came
	CallNotMade = "not_made" // one before it was not done
)

// TypePlan is the Result.ErrorType of a plan that was not carried out to its end.
const TypePlan = "PlanError"

func (c *carrying) carry(ctx context.Context) (res Result, err error) {
	began := time.Now()
	res = Result{Output: []string{}, Status: sandbox.Completed}
	if err := c.permit(ctx); err != nil {
		return c.notPermitted(ctx, res, err)
	}
	steps, results, cut := c.steps(ctx)
	state := journal.State("")
	if c.x.left = cut; cut {
		state = journal.Planned
	}
	if err := c.run.End(context.WithoutCancel(ctx), state); err != nil {
		c.r.cfg.Log.Error("record the end of a plan", "plan", c.x.id, "error", err)
	}
	res.Elapsed = time.Since(began)
	res.Applied = steps
	c.explain(&res)
	value, err := json.Marshal(results)
	if err != nil {
		return res, err
	}
	files := store{ctx: context.WithoutCancel(ctx), home: c.home, exit: c.exit, scratch: c.r.cfg.Scratch, large: &c.r.large}
	spill := spiller{files: files, id: c.x.id, most: c.r.cfg.ReplyBytes, exit: c.exit}
	return res, spill.value(&res, value)
}

// notPermitted is the end of a plan of which nothing was done. One that was denied
// cannot be asked for again.
func (c *carrying) notPermitted(ctx context.Context, res Result, err error) (Result, error) {
	state := journal.Planned
	if fault.KindOf(err) == fault.Denied {
		state = ""
		res.Status, res.ErrorType, res.Error = sandbox.Refused, TypePlan, fault.Message(err)
		err = nil
	}
	c.x.left = state != ""
	if wrong := c.run.End(context.WithoutCancel(ctx), state); wrong != nil {
		c.r.cfg.Log.Error("record the end of a plan", "plan", c.x.id, "error", wrong)
	}
	if err != nil {
		return c.r.unrun(ctx, err)
	}
	return res, nil
}

// steps makes the calls until one is not done. It reports whether it was cut short.
func (c *carrying) steps(ctx context.Context) (all []AppliedCall, results []any, cut bool) {
	c.caller = c.r.cfg.Tools.Calls.For(toolcall.Owner{Home: c.home, Exit: c.exit, Run: c.run, Approved: true})
	results = []any{}
	for i, p := range c.plan.Calls {
		s := AppliedCall{Call: i + 1, Ref: p.Ref, State: CallNotMade}
		if len(results) == i {
			if value, err := c.step(ctx, p, results); err != nil {
				s.State, s.Error = CallFailed, fault.Message(err)
				if f, own := errors.AsType[*tool.Failure](err); own {
					s.Error = f.Message
					if f.Unknown {
						s.State = CallUnknown
					}
				}
			} else {
				s.State, results = CallDone, append(results, value)
			}
		}
		all = append(all, s)
	}
	return all, results, ctx.Err() != nil
}

// step makes one call and returns what it answered.
func (c *carrying) step(ctx context.Context, p toolcall.Planned, results []any) (value any, err error) {
	args, err := p.Resolve(results)
	if err != nil {
		return nil, err
	}
	if err := c.r.cfg.Tools.Calls.CheckUnchanged(ctx, p); err != nil {
		return nil, err
	}
	res, err := c.caller.Call(ctx, tool.Call{Ref: p.Ref, Execution: c.x.id, Args: args})
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

// explain says of a plan that was not carried out to its end what was done.
func (c *carrying) explain(res *Result) {
	i := slices.IndexFunc(res.Applied, func(s AppliedCall) bool { return s.State != CallDone })
	if i < 0 {
		return
	}
	s := res.Applied[i]
	what := "failed"
	if s.State == CallUnknown {
		what = "may have been made before"
	}
	res.Status, res.ErrorType = sandbox.Raised, TypePlan
	res.Error = fmt.Sprintf("call %d of the plan, %s, %s: %s; made before it, and not taken back: %d; not made: %d", s.Call, s.Ref, what, s.Error, i, len(res.Applied)-i-1)
	res.Hint = "the plan is over; make a new one for what is left"
}
