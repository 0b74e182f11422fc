package execution

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// StoredRequest is what is stored of a run to start it, or to run it again.
type StoredRequest struct {
	Request Request `json:"request"`
	Seed    []byte  `json:"seed,omitempty"` // of randomness in the code, once it has run
	Task    string  `json:"task,omitempty"` // in words; the code is written when it runs
	// Schedule is the name of the schedule that it is a run of; "" for none.
	Schedule string `json:"schedule,omitempty"`
}

// hostWords occur in code that may reach anything outside its sandbox, or ask. Other
// code needs no record.
var hostWords = []string{"servers", "call_tool", "call_mcp_tool", "skill", "_state", "ask", "resource", "prompt", "step", "sleep_", "wait_for"}

// networkWords occur in code that may send HTTP requests.
var networkWords = []string{"fetch", "http", "url", "requests", "socket"}

// needsRecord reports whether code of a tenant may reach anything outside its sandbox, or ask.
func (r *Runner) needsRecord(id tenant.ID, code string) bool {
	return containsAny(code, hostWords) || containsAny(code, networkWords) && r.settings(id).Network
}

// concurrencyWords occur in code that may do several things concurrently. Concurrent
// code without any of them is only compared too strictly with its record.
var concurrencyWords = []string{"parallel", "hread", "async", "await", "aio", "concurrent", "multiprocessing", "skills", "spawn"}

func containsAny(code string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(code, w) })
}

// startRecord starts the record of an execution that may be resumed. That of a step of a
// session is for the session's log, and a dry run has no effects.
func (r *Runner) startRecord(x *run, home *home.Home, req Request) (err error) {
	switch {
	case req.Replay != nil && !req.Replay.repeatCalls:
		x.record, err = home.Journal.ReplaySession(x.id, req.Replay.record)
		return err
	case req.SessionID != "":
		x.record = home.Journal.NewSessionRecord(x.id)
		return nil
	case req.DryRun || !r.needsRecord(home.ID(), req.Code):
		return nil
	}
	k := StoredRequest{Request: req, Seed: make([]byte, seedBytes)}
	if b := x.background.Load(); b != nil {
		k.Task, k.Schedule = b.task, b.schedule
	}
	_, _ = rand.Read(k.Seed) // never fails
	x.record = home.Journal.NewRecord(x.id, func() ([]byte, error) { return json.Marshal(k) }, containsAny(req.Code, concurrencyWords))
	if x.record != nil {
		x.seed = k.Seed
	}
	return nil
}

// seedBytes is the length of the seed of a sandbox.Program.
const seedBytes = 32

// mayBeConcurrent reports whether the code of a recorded request may be concurrent.
func mayBeConcurrent(request []byte) bool {
	var k StoredRequest
	return json.Unmarshal(request, &k) != nil || containsAny(k.Request.Code, concurrencyWords)
}

// Resume returns a handle on an execution of the tenant that is running or has
// recently ended, like Attach. An execution that was interrupted, or suspended when its
// process ended, is run again under its id from the first line: calls and questions
// that have recorded answers receive those, and are not repeated. The error is NotFound
// without a record, Unavailable if another live process has it, and Exhausted if the
// record was too large to be stored. Code that runs again has the limits that are given, else the
// recorded ones; if it had ended at one, it has the largest that the tenant may choose, because it
// would end there again.
func (r *Runner) Resume(ctx context.Context, home *home.Home, id string, limits ...ResumeLimits) (*Execution, error) {
	x, err := r.resume(ctx, home, id, limits)
	if r.cfg.Audit != nil && fault.KindOf(err) == fault.NotFound && idForm.MatchString(id) {
		r.cfg.Audit(audit.Line{Kind: audit.Access, Tenant: home.ID(), Execution: id, Outcome: "unknown_execution"})
	}
	return x, err
}

// idForm matches ids of executions and plans. Other text is not written to the audit log.
var idForm = regexp.MustCompile(`^(exec|plan)_[a-z2-7]{26}$`)

// ResumeLimits replace limits of an execution; zero keeps one.
type ResumeLimits struct {
	Timeout  time.Duration
	MemoryMB int
}

// moreThan returns the limits for code that had ended in a state.
func moreThan(ended journal.Reason, l Limits) (more ResumeLimits) {
	switch ended {
	case journal.Reason(sandbox.TimedOut):
		more.Timeout = l.MaxTimeout
	case journal.Reason(sandbox.OverLimit):
		more.MemoryMB = l.MaxMemoryMB
	}
	return more
}

func (r *Runner) resume(ctx context.Context, home *home.Home, id string, limits []ResumeLimits) (*Execution, error) {
	if x := r.registry.find(home.ID(), id); x != nil && !x.interrupted() {
		x.bindTo(ctx)
		return r.handle(x), nil
	}
	if err := checkNotBackground(ctx, home, id); err != nil {
		return nil, err
	}
	if x, err := kept(ctx, r, home, id); x != nil || err != nil {
		return x, err
	}
	if err := takeExecution(ctx, home); err != nil {
		return nil, err
	}
	if plan.IsID(id) && slices.ContainsFunc(limits, func(l ResumeLimits) bool { return l != ResumeLimits{} }) {
		return nil, fault.New(fault.Invalid, "a plan has no limits").WithHint("omit timeout_seconds and memory_mb")
	}
	if plan.IsID(id) {
		return r.applyPlan(ctx, home, id)
	}
	return r.replay(ctx, home, id, nil, limits...)
}

// replay runs an execution again from its record.
func (r *Runner) replay(ctx context.Context, home *home.Home, id string, b *background, limits ...ResumeLimits) (*Execution, error) {
	record, request, err := home.Journal.OpenRecord(ctx, id, mayBeConcurrent)
	if err != nil {
		return nil, err
	}
	x := newRun(id)
	x.background.Store(b)
	x.outlived.Store(true)
	last, waited := record.Questions()
	x.record, x.pendingQuestions = record, len(waited)
	x.questions.StartNames(last, waited)
	var k StoredRequest
	if err = json.Unmarshal(request, &k); err == nil {
		x.seed = k.Seed
		for _, l := range append([]ResumeLimits{moreThan(journal.Before(record).Reason, r.limitsOf(home.ID(), k.Request))}, limits...) {
			k.Request.Timeout, k.Request.MemoryMB = orDefault(l.Timeout, k.Request.Timeout), orDefault(l.MemoryMB, k.Request.MemoryMB)
		}
		k.Request, err = r.limitsOf(home.ID(), k.Request).check(k.Request)
	}
	var again *Execution
	if err == nil {
		again, err = r.begin(ctx, home, x, k.Request)
	}
	if err != nil {
		if b == nil {
			err = errors.Join(err, record.End(ctx, journal.Before(record)))
		} else {
			record.Close()
		}
		return nil, err
	}
	return again, nil
}

// NeedsResume reports whether no execution of that id is running or completed in this
// process: only Resume can continue it.
func (r *Runner) NeedsResume(home *home.Home, id string) bool {
	x := r.registry.find(home.ID(), id)
	return x == nil || x.interrupted()
}

// resumeHint returns the hint for an execution that can be resumed, with twice the limit that it
// reached.
func resumeHint(e *executor, x *run) string {
	l := e.settings.Limits
	flag, more := "", ""
	switch r := x.result; {
	case r.Status == sandbox.TimedOut && e.req.Timeout < l.MaxTimeout:
		flag = fmt.Sprintf(" --timeout %gs", math.Ceil(min(2*e.req.Timeout, l.MaxTimeout).Seconds()))
	case r.Limit == sandbox.LimitMemory && e.req.MemoryMB < l.MaxMemoryMB:
		flag = fmt.Sprintf(" --memory %d", min(2*e.req.MemoryMB, l.MaxMemoryMB))
	}
	if flag != "" {
		more = " and with more than this limit"
	}
	return fmt.Sprintf("resume_execution, or `sandpiper executions resume %s%s`, reruns the code from its first line%s; answered calls return their recorded answers and are not repeated", x.id, flag, more)
}

// Abandon ends an execution of the tenant for good: it cancels one that runs in this process, and
// deletes the record. The error is NotFound if there is none, and Unavailable if another live
// process has it.
func (r *Runner) Abandon(ctx context.Context, home *home.Home, id string) error {
	x := r.registry.find(home.ID(), id)
	if x != nil {
		x.cancel(context.Canceled)
		select {
		case <-x.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	record, request, err := home.Journal.OpenRecord(ctx, id, mayBeConcurrent)
	if err != nil {
		if x != nil && fault.KindOf(err) == fault.NotFound {
			return nil // it had nothing to record
		}
		return err
	}
	return record.End(ctx, stopped(request))
}

// stopped returns the end of a run that a person has stopped for good.
func stopped(request []byte) journal.End {
	var k StoredRequest
	if json.Unmarshal(request, &k) == nil && keepsRun(k.Request) {
		return journal.End{State: journal.Ended, Outcome: journal.Cancelled, Forget: true}
	}
	return journal.End{}
}
