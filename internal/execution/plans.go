package execution

import (
	"bytes"
	"cmp"
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

	"github.com/sandpiper-mcp/sandpiper/internal/egress"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tenants"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// A plan is kept as the journal's record of an execution that has not begun: sealed,
// executed by one process at a time, and gone when it came to its end.

// planFor is how long a plan can be approved.
const planFor = 24 * time.Hour

// statePlanned is the state of such a record.
const statePlanned journal.State = "planned"

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
func keep(ctx context.Context, home *tenants.Home, p keptPlan) (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	id := planPrefix + strings.ToLower(rand.Text())
	run := home.Journal.NewRun(id, b, false)
	if run == nil {
		return "", nil
	}
	ctx = context.WithoutCancel(ctx)
	if err := run.Keep(ctx); err != nil {
		return "", fault.Wrap(fault.KindOf(err), err, "the dry run ended, but its plan could not be kept: %s", fault.Message(err))
	}
	return id, run.End(ctx, statePlanned)
}

// Carry has a plan approved by the person and then makes its calls, and no others.
// The handle is like that of an execution, whose questions are whether it may. An
// error says that the plan cannot be carried out: it was already, has expired, or a
// tool in it has changed.
func (r *Runner) Carry(ctx context.Context, home *tenants.Home, id string) (*Execution, error) {
	if x := r.book.find(home.ID(), id); x != nil {
		return r.Attach(ctx, home, id, nil)
	}
	if r.cfg.Tools == nil {
		return nil, noPlan(id)
	}
	run, err := home.Journal.OpenRun(ctx, id, func([]byte) bool { return false })
	if fault.KindOf(err) == fault.NotFound {
		return nil, noPlan(id)
	}
	if err != nil {
		return nil, err
	}
	p, err := r.read(ctx, run, id)
	if err != nil {
		return nil, err
	}
	x := newRun(id)
	return r.launch(ctx, home, x, func(ctx context.Context, home *tenants.Home) {
		c := &carrying{r: r, home: home, x: x, run: run, plan: p, exit: r.exit(home, x, nil, Request{})}
		x.result, x.err = c.carry(ctx)
		x.result.ExecutionID = id
		r.audit(home, x, nil)
		r.book.end(x)
		close(x.ended)
	})
}

func noPlan(id string) error {
	return fault.New(fault.NotFound, "there is no plan %.60q that can be carried out: it was carried out or denied, or is more than %d hours old", id, int(planFor.Hours())).
		WithHint("make a new plan with execute_code and dry_run")
}

// read opens what a record says. One that has expired is deleted.
func (r *Runner) read(ctx context.Context, run *journal.Run, id string) (p keptPlan, err error) {
	if err = json.Unmarshal(run.Request(), &p); err == nil && time.Since(p.Made) < planFor {
		for _, c := range p.Calls {
			if err = r.cfg.Tools.Calls.Unchanged(ctx, c); err != nil {
				break
			}
		}
		if err == nil {
			return p, nil
		}
		_ = run.End(ctx, statePlanned)
		return p, fault.Wrap(fault.KindOf(err), err, "the plan was not carried out: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	_ = run.End(ctx, "")
	return p, noPlan(id)
}

// carrying is a plan that is carried out.
type carrying struct {
	r    *Runner
	home *tenants.Home
	x    *run
	run  *journal.Run
	plan keptPlan
	exit *egress.Exit

	caller tool.Caller
}

// Carried is what became of one call of a plan.
type Carried struct {
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
	if allowed, err := c.permit(ctx); err != nil || !allowed {
		if err == nil {
			err = c.run.End(context.WithoutCancel(ctx), "")
			res.Status, res.ErrorType, res.Error = sandbox.Refused, "Denied", "the person has not approved the plan: none of its calls was made"
		} else if cause := causeOf(ctx); cause != nil {
			_ = c.run.End(context.WithoutCancel(ctx), statePlanned)
			return c.r.unrun(ctx, err)
		}
		return res, err
	}
	steps, results, cut := c.steps(ctx)
	state := journal.State("")
	if cut {
		state = statePlanned
	}
	if err := c.run.End(context.WithoutCancel(ctx), state); err != nil {
		c.r.cfg.Log.Error("record the end of a plan", "plan", c.x.id, "error", err)
	}
	res.Elapsed = time.Since(began)
	res.Carried = steps
	c.explain(&res)
	value, err := json.Marshal(results)
	if err != nil {
		return res, err
	}
	files := store{ctx: context.WithoutCancel(ctx), home: c.home, exit: c.exit, scratch: c.r.cfg.Scratch, large: &c.r.large}
	spill := spiller{files: files, id: c.x.id, most: c.r.cfg.ReplyBytes, exit: c.exit}
	return res, spill.value(&res, value)
}

// steps makes the calls until one is not done. It reports whether it was cut short.
func (c *carrying) steps(ctx context.Context) (all []Carried, results []any, cut bool) {
	c.caller = c.r.cfg.Tools.Calls.For(toolcall.Owner{Home: c.home, Exit: c.exit, Approved: true})
	results = []any{}
	for i, p := range c.plan.Calls {
		s := Carried{Call: i + 1, Ref: p.Ref, State: CallNotMade}
		if len(results) == i {
			if value, err := c.step(ctx, p, results); err != nil {
				s.State, s.Error = CallFailed, fault.Message(err)
				if err == errUnknown {
					s.State = CallUnknown
				}
				if f, own := errors.AsType[*tool.Failure](err); own {
					s.Error = f.Message
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
	if err := c.r.cfg.Tools.Calls.Unchanged(ctx, p); err != nil {
		return nil, err
	}
	res, err := c.call(ctx, tool.Call{Ref: p.Ref, Execution: c.x.id, Args: args})
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

// errUnknown is of a call that began when the plan was carried out before.
var errUnknown = fault.New(fault.Unavailable, "it began before Sandpiper ended, and it is not known whether it happened; it is not repeated")

// call makes a call, unless it was made when the plan was carried out before.
func (c *carrying) call(ctx context.Context, call tool.Call) (res tool.Result, err error) {
	was, err := c.run.Next(ctx, journal.Ask{Ref: call.Ref, Args: call.Args})
	switch {
	case err != nil:
		return res, err
	case was.Answer != nil:
		if err := was.Answer.Err(); err != nil {
			return res, err
		}
		return res, json.Unmarshal(was.Answer.Value, &res)
	case was.Begun:
		return res, errUnknown
	}
	call.Number = was.Number
	if err := c.run.Begin(ctx, call); err != nil {
		return res, err
	}
	res, err = c.caller.Call(ctx, call)
	if ctx.Err() != nil && err != nil { // nobody is told
		return res, errors.Join(err, c.run.Done(context.WithoutCancel(ctx), call.Number, journal.Unknown, nil))
	}
	a, wrong := journal.AnswerOf(res, err)
	outcome := journal.Answered
	if err != nil {
		outcome = journal.Failed
	}
	return res, cmp.Or(err, wrong, c.run.Done(context.WithoutCancel(ctx), call.Number, outcome, &a))
}

// explain says of a plan that was not carried out to its end what was done.
func (c *carrying) explain(res *Result) {
	i := slices.IndexFunc(res.Carried, func(s Carried) bool { return s.State != CallDone })
	if i < 0 {
		return
	}
	s := res.Carried[i]
	what := "failed"
	if s.State == CallUnknown {
		what = "may have been made"
	}
	res.Status, res.ErrorType = sandbox.Raised, TypePlan
	res.Error = fmt.Sprintf("call %d of the plan, %s, %s: %s; %d calls before it were made and stay made, %d after it were not", s.Call, s.Ref, what, s.Error, i, len(res.Carried)-i-1)
	res.Hint = "the plan is over; make a new one for what is left"
}

// permit asks the person, once, whether all calls may be made.
func (c *carrying) permit(ctx context.Context) (bool, error) {
	schema, resolved, _, err := askSchema(json.RawMessage(planForm))
	if err != nil {
		return false, err
	}
	one, err := c.x.questions.add(Question{Approval: c.x.id, Text: c.plan.text(), Schema: schema}, resolved, c.exit)
	if err != nil {
		return false, err
	}
	defer c.x.questions.remove(one)
	c.x.tell()
	reply, err := one.wait(ctx)
	if err != nil || reply.Action != Accept {
		return false, err
	}
	var said struct{ Approve bool }
	err = json.Unmarshal(reply.Content, &said)
	return said.Approve, err
}

// planForm is what the person fills in.
const planForm = `{"type":"object","properties":{"approve":{"type":"boolean","title":"Make all of these calls"}},"required":["approve"]}`

// maxShown bounds what is shown of one call's arguments, in bytes.
const maxShown = 2000

// text shows the person what will be done.
func (p keptPlan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "May these %d calls be made, in this order, and no others?", len(p.Calls))
	for i, c := range p.Calls {
		args := string(c.Args)
		if len(args) > maxShown {
			args = strings.ToValidUTF8(args[:maxShown], "") + fmt.Sprintf("… (%d bytes)", len(args))
		}
		fmt.Fprintf(&b, "\n%d. %s %s", i+1, c.Ref, args)
		for _, r := range c.References {
			fmt.Fprintf(&b, "\n   with %s: %s of the result of call %d", r.Argument, cmp.Or(r.Result.String(), "all"), r.Call)
		}
	}
	return b.String()
}
