package sessions

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

// Rebuild states how a session is rebuilt.
type Rebuild struct {
	Key
	Log      *session.Log
	MemoryMB int // of the interpreter; 0 means that of the live one, or the default
	// RepeatCalls makes the calls of steps that have no record again. Otherwise a call that is
	// not on record ends the rebuild with an error.
	RepeatCalls bool
	// Run runs a step again and waits for its result.
	Run func(context.Context, Rerun) (reply.Result, error)
}

// Rerun is a step of a session's log that runs again.
type Rerun struct {
	session.Step
	Acquired    *Interpreter   // of the session; Rebuild has its turn
	MemoryMB    int            // of the interpreter; 0 means the default
	Record      []byte         // from which calls are answered
	RepeatCalls bool           // calls are made instead
	Session     []session.Step // all steps, whose code selects the sandbox of the interpreter
}

// Rebuilt describes how a session was rebuilt. It contains values that are not redacted.
type Rebuilt struct {
	ID      string      `json:"session_id"`
	Tasks   int         `json:"tasks"` // that were replayed
	Differs []Different `json:"differs"`
	Notes   []string    `json:"notes"`
}

// Different is a task whose result differs from the log.
type Different struct {
	Task string `json:"task_id"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

func (b *Rebuilt) note(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// Rebuild replays the steps of a session's log in a new interpreter, so that the next step has
// their variables. The calls of the code are answered from the record. A live interpreter that lacks
// a step, as after a restart, is replaced; one that has all of them is not.
func (p *Pool) Rebuild(ctx context.Context, o Rebuild) (*Rebuilt, error) {
	steps, err := o.Log.Replay(ctx, o.Session)
	if err != nil {
		return nil, err
	}
	turn, err := p.acquire(ctx, o.Key)
	if err != nil {
		return nil, err
	}
	defer p.release(turn)
	var own map[string]bool // steps of the interpreter that is replaced
	if p.thaw(turn) {
		own = turn.steps
		if !slices.ContainsFunc(steps, func(s session.Step) bool { return !s.InterpreterLost && !own[s.Key] }) {
			return nil, fault.New(fault.Invalid, "session %q has a live interpreter, whose variables are intact", o.Session).
				WithHint("continue with execute_code and this session_id")
		}
		o.MemoryMB = cmp.Or(o.MemoryMB, turn.MemoryMB)
		p.end(turn)
	}
	skip := map[int]error{}
	for {
		b, failed, err := replaySteps(ctx, steps, o, turn, skip)
		if err == nil {
			return b, nil
		}
		p.end(turn) // it has a part of the variables
		fresh := slices.ContainsFunc(steps, func(s session.Step) bool { return s.Number == failed && (s.Fresh || own[s.Key]) })
		if busy := fault.KindOf(err) == fault.Exhausted; !fresh || busy || skip[failed] != nil || ctx.Err() != nil {
			return nil, err
		}
		skip[failed] = err // it ran without the variables of earlier steps, and does something else with them
	}
}

// replaySteps replays all steps but those to skip. If one fails, it returns its number.
func replaySteps(ctx context.Context, steps []session.Step, o Rebuild, turn *Interpreter, skip map[int]error) (b *Rebuilt, failed int,
	err error) {
	b = &Rebuilt{ID: o.Session, Differs: []Different{}, Notes: []string{}}
	if len(steps) > 0 && steps[0].Number > 1 {
		b.note("tasks before %s are no longer in the log: the variables that they set are missing", steps[0].ID())
	}
	for _, s := range steps {
		if err := skip[s.Number]; err != nil {
			b.note("%s ran without the variables of earlier tasks and is skipped: %.200s", s.ID(), fault.Message(err))
			turn.addStep(s.Key)
			continue
		}
		if s.InterpreterLost {
			b.note("%s ended its interpreter and is skipped (%.200s)", s.ID(), s.Result)
			continue
		}
		if err := rebuildStep(ctx, b, o, Rerun{Step: s, Acquired: turn, MemoryMB: o.MemoryMB, Session: steps}); err != nil {
			return nil, s.Number, err
		}
		turn.addStep(s.Key)
	}
	return b, 0, nil
}

// rebuildStep replays one step and compares the result with the log.
func rebuildStep(ctx context.Context, b *Rebuilt, o Rebuild, s Rerun) (err error) {
	s.RepeatCalls = o.RepeatCalls && s.Recorded != session.Complete
	if s.Record, err = o.Log.Record(ctx, o.Session, s.Number); err != nil {
		return err
	}
	if s.VarsLost {
		b.note("%s had context variables that are too large for the log: it runs without them", s.ID())
	}
	result, err := o.Run(ctx, s)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case result.ErrorType == reply.TypeDivergence:
		return diverged(s.Step, result)
	case result.Session.State == reply.SessionEnded:
		return fault.New(fault.Unavailable, "%s ended the interpreter when it was replayed: %s", s.ID(), result.Error).
			WithHint("session %s cannot be rebuilt from its log alone", o.Session)
	}
	b.Tasks++
	if is := result.LogText(); normalizeResult(is) != normalizeResult(s.Result) {
		b.Differs = append(b.Differs, Different{s.ID(), s.Result, is})
	}
	if len(result.Unrepeated) > 0 {
		b.note("%s did not make all of its recorded calls again: %.200s", s.ID(), strings.Join(result.Unrepeated, ", "))
	}
	return nil
}

// diverged returns the error of a step whose replay was stopped before a call that is not on record.
func diverged(s session.Step, result reply.Result) error {
	const repeat = "`sandpiper session resume SESSION --repeat-calls` makes the calls of such tasks again"
	why, hint := "", "it was stopped before this call: other data in /workspace, the time, random numbers or a changed skill can be why"
	switch s.Recorded {
	case session.NotRecorded:
		why, hint = "; it is older than the records of calls", repeat
	case session.RecordTooLarge:
		why, hint = "; its calls were too large to be recorded", repeat
	case session.RecordDeleted:
		why, hint = "; the record of its calls was deleted, because the records of a session are limited", repeat
	}
	return fault.New(fault.Invalid, "%s cannot be replayed: %s%s", s.ID(), result.Error, why).WithHint("%s", hint)
}

// executionIDs matches the ids in paths of results that were too large to return.
var executionIDs = regexp.MustCompile(`exec_[a-z0-9]{20,}`)

// normalizeResult removes execution ids, which differ each time, from a logged result.
func normalizeResult(result string) string { return executionIDs.ReplaceAllString(result, "exec_") }
