package execution

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// kept is what it takes to run an execution again.
type kept struct {
	Request Request `json:"request"`
	Seed    []byte  `json:"seed"`
}

// outside are words of code that may reach something outside its sandbox, or ask.
// Of other code there is nothing to record.
var outside = []string{"servers", "call_tool", "call_mcp_tool", "skill", "ask", "resource", "prompt"}

// beside are words of code that may do several things at the same time. Code that
// does, and has none of them, is only judged too strictly when it is run again.
var beside = []string{"parallel", "hread", "async", "await", "aio", "concurrent", "multiprocessing", "skills", "spawn"}

func contains(code string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(code, w) })
}

// remember begins the record of an execution that may be run again: of a step of a
// session the session has the record, and a dry run does nothing to be repeated.
func (x *run) remember(home *home.Home, req Request) {
	if req.SessionID != "" || req.DryRun || !contains(req.Code, outside) {
		return
	}
	k := kept{req, make([]byte, seedBytes)}
	_, _ = rand.Read(k.Seed) // never fails
	x.record = home.Journal.NewRecord(x.id, func() ([]byte, error) { return json.Marshal(k) }, contains(req.Code, beside))
	if x.record != nil {
		x.seed = k.Seed
	}
}

// seedBytes is how long the seed of a sandbox.Program is.
const seedBytes = 32

// concurrent tells of a recorded request whether its code may do several things at
// once.
func concurrent(request []byte) bool {
	var k kept
	return json.Unmarshal(request, &k) != nil || contains(k.Request.Code, beside)
}

// Resume returns a handle on an execution of the tenant that runs or has just
// come to its end, as Attach does. One that was interrupted, parked when its
// process ended, or cut short in another way is run again under its id, from the
// first line: what it was answered before it is answered again, without asking
// anybody or calling anything. The error is NotFound if it is not on record,
// Unavailable if another living process has it, and Exhausted if it was too large
// to be kept.
func (r *Runner) Resume(ctx context.Context, home *home.Home, id string) (*Execution, error) {
	if x := r.book.find(home.ID(), id); x != nil && !x.cutShort() {
		x.heldBy(ctx)
		return r.handle(x), nil
	}
	if IsPlan(id) {
		return r.carryOut(ctx, home, id)
	}
	record, request, err := home.Journal.OpenRecord(ctx, id, concurrent)
	if err != nil {
		return nil, err
	}
	x := newRun(id)
	last, waited := record.Questions()
	x.record, x.waited = record, waited
	x.questions.named = last - waited // so that they are put under the same names
	var k kept
	if err = json.Unmarshal(request, &k); err == nil {
		x.seed = k.Seed
		k.Request, err = r.cfg.Limits.check(k.Request)
	}
	var again *Execution
	if err == nil {
		again, err = r.begin(ctx, home, x, k.Request)
	}
	if err != nil {
		return nil, errors.Join(err, record.End(ctx, journal.State(sandbox.Cancelled)))
	}
	return again, nil
}

// Lost tells whether the tenant has no execution of that id here that runs or came
// to its end: it can at most be resumed.
func (r *Runner) NeedsResume(home *home.Home, id string) bool {
	x := r.book.find(home.ID(), id)
	return x == nil || x.cutShort()
}

// cutShort tells whether x has ended and can be run again. How it ended is first
// told to somebody.
func (x *run) cutShort() bool {
	select {
	case <-x.ended:
		return x.left && x.told.Load()
	default:
		return false
	}
}

// forget ends the record of x. What came to its end needs none; anything else may
// be run again.
func (r *Runner) forget(ctx context.Context, x *run) {
	var state journal.State
	switch {
	case x.err == nil && x.result.Status.Reusable():
	case x.parked():
		state = journal.Suspended
	default:
		state = journal.State(status(x))
	}
	x.left = state != "" && x.record.Stored()
	if err := x.record.End(context.WithoutCancel(ctx), state); err != nil {
		r.cfg.Log.Error("end the record of an execution", "execution", x.id, "error", err)
	}
	if x.left && x.err == nil && x.result.ErrorType != TypeDivergence {
		x.result.Hint = strings.TrimPrefix(x.result.Hint+"; "+resumable, "; ")
	}
}

// resumable is the advice about an execution that was cut short.
const resumable = "resume_execution, or `sandpiper executions resume`, runs the code again from its first line; calls that were answered are answered from the record, and none is repeated"

const methodAsk = "ask"

// remembered are the calls of the host, beside those of tools, whose answers a
// second run is given again. Calls to servers that are not of tools are remembered
// as the server answered, where they are made.
var remembered = map[string]bool{
	methodAsk: true, "save_skill": true, "load_skill": true, "list_skills": true, "search_tools": true, "get_tool_definition": true,
}

// once makes a call unless the record has its answer, and notes the answer.
func (h *host) once(ctx context.Context, a journal.HostCall, call func() (any, error)) (any, error) {
	record := h.run.record
	if record == nil {
		return call()
	}
	was, err := record.Next(ctx, a)
	if err != nil {
		return nil, err
	}
	if was.Answer != nil {
		return was.Answer.Value, was.Answer.Err()
	}
	value, err := call()
	if ctx.Err() != nil { // the code is not told
		return value, err
	}
	answer, wrong := journal.NewAnswer(value, err)
	if wrong != nil {
		return nil, fault.Wrap(fault.Internal, wrong, "the answer to %s is no JSON", a)
	}
	record.SetAnswer(was.Number, answer)
	if a.Method == methodAsk { // nobody is to be asked twice
		if err := record.Flush(ctx); err != nil {
			return nil, err
		}
	}
	return value, err
}

// asksServer is once for what is asked of a server and is no tool.
func (h *host) asksServer(ctx context.Context, method string, of ofServer, call func() (any, error)) (any, error) {
	args, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return h.once(ctx, journal.HostCall{Method: method, Ref: tool.Ref{Server: of.Server}, Args: args}, call)
}

// RecordClock implements sandbox.ClockRecorder.
func (h *host) RecordClock(readings []int64) { h.run.record.AddClockReadings(readings) }

// differs ends the execution if err says that its code does something else than
// it did before.
func (h *host) differs(err error) {
	if d, ok := errors.AsType[*journal.Divergence](err); ok {
		h.run.cancel(d)
	}
}
