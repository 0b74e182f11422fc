package execution

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
)

// Event is the next event of an execution: exactly one field is set. It is a plain
// value that survives JSON.
type Event struct {
	Progress  *live.Progress      `json:"progress,omitempty"`
	Questions []question.Question `json:"questions,omitempty"` // all open questions
	Done      *reply.Result       `json:"done,omitempty"`
}

// Execution is a handle on one execution. Several handles may observe the same
// execution; one handle must not be used concurrently.
type Execution struct {
	run          *run
	minInterval  time.Duration // between two Progress events
	lastProgress int           // number of the Progress returned last
	nextProgress time.Time     // earliest time of the next Progress event
	lastQuestion int           // number of the last Question returned
}

// ID returns the id of the execution.
func (e *Execution) ID() string { return e.run.id }

// Session returns the session that the execution is a step of; "" without one.
func (e *Execution) Session() string { return e.run.Request.SessionID }

// PendingQuestions returns how many questions were open when the execution was
// interrupted, if this is a resumed run.
func (e *Execution) PendingQuestions() int { return e.run.pendingQuestions }

// Result returns the result of an execution that has ended.
func (e *Execution) Result() (reply.Result, error) { return e.run.result, e.run.err }

// Skills returns the names of the skills that the code has imported.
func (e *Execution) Skills() []string { return e.run.skills.List() }

// Ended returns a channel that is closed when the execution has ended.
func (e *Execution) Ended() <-chan struct{} { return e.run.ended }

// Questions returns the open questions.
func (e *Execution) Questions() []question.Question {
	open, _ := e.run.questions.List()
	return open
}

// QuestionClosed returns a channel that is closed once the question with this id is
// no longer open: it was answered, perhaps in another way, or withdrawn.
func (e *Execution) QuestionClosed(id string) <-chan struct{} { return e.run.questions.Closed(id) }

// Hold keeps the process of a background execution while the caller shows its questions to a person, until release is
// called, perhaps several times.
func (e *Execution) Hold() (release func()) {
	e.run.showing.Add(1)
	return sync.OnceFunc(func() { e.run.showing.Add(-1) })
}

// RepeatQuestions makes Next return the questions that are still open once more.
func (e *Execution) RepeatQuestions() { e.lastQuestion-- }

// Next waits for the next Event: the latest Progress not yet returned, Questions if one
// was asked since the last time, or Done. Unread Progress is replaced by later Progress
// and never blocks the code. After Done, every call returns it again. An error is that
// of ctx, or states why the code could not be run.
func (e *Execution) Next(ctx context.Context) (Event, error) {
	for {
		p, n, changed := e.run.latest()
		select {
		case <-e.run.ended:
			return e.last()
		default:
		}
		if e.run.questions.Last() > e.lastQuestion {
			if err := e.gatherQuestions(ctx); err != nil {
				return Event{}, err
			}
			var open []question.Question
			if open, e.lastQuestion = e.run.questions.List(); len(open) > 0 {
				return Event{Questions: open}, nil
			}
			continue
		}
		wait := time.Until(e.nextProgress)
		if n > e.lastProgress && wait <= 0 {
			e.lastProgress, e.nextProgress = n, time.Now().Add(e.minInterval)
			return Event{Progress: &p}, nil
		}
		var again <-chan time.Time
		if n > e.lastProgress { // too soon after the previous one
			changed, again = nil, time.After(wait)
		}
		select {
		case <-e.run.ended:
			return e.last()
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		case <-changed:
		case <-again:
		}
	}
}

// last returns the events of an execution that has ended: the latest Progress, if it was not yet
// returned, and then Done.
func (e *Execution) last() (Event, error) {
	p, n, _ := e.run.latest()
	if n > e.lastProgress {
		e.lastProgress = n
		return Event{Progress: &p}, nil
	}
	return e.run.finalEvent()
}

// A question is returned together with others that follow within gatherInterval; this
// wait is repeated at most maxGather times.
const (
	gatherInterval = 20 * time.Millisecond
	maxGather      = 5
)

func (e *Execution) gatherQuestions(ctx context.Context) error {
	for range maxGather {
		before := e.run.questions.Last()
		select {
		case <-e.run.ended:
			return nil
		case <-time.After(gatherInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.run.questions.Last() == before {
			return nil
		}
	}
	return nil
}
