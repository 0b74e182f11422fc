package live

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// AnswerEvent is the signal with answers to the questions of a background execution.
const AnswerEvent = journal.Reserved + "answer"

// CheckEvent rejects an event, or its value, that cannot be sent to an execution.
func CheckEvent(event string, value json.RawMessage) error {
	switch {
	case strings.HasPrefix(event, journal.Reserved):
		return fault.New(fault.Invalid, "the name of the event begins with a zero byte")
	case event == "" || len(event) > 800:
		return fault.New(fault.Invalid, "the name of the event has %d bytes; 1 to 800 are allowed", len(event))
	case !json.Valid(value):
		return fault.New(fault.Invalid, "the value of the signal is not JSON: %.60q", value).WithHint(`quote texts: '"yes"'`)
	case len(value) > journal.MaxSignalBytes:
		return fault.New(fault.Exhausted, "the value of the signal has %d bytes of JSON; at most %d are allowed", len(value),
			journal.MaxSignalBytes).
			WithHint("write large data to a file in /workspace, and send its name")
	}
	return nil
}

// takeover is how long an answer waits for its question, when another process continues an execution and has
// not come to it.
const takeover = 5 * time.Second

// QuestionsOf returns the open questions of a background execution that runs, or waits without a process, as they are
// stored.
func QuestionsOf(e journal.Run) []question.Question {
	var s State
	if e.State != journal.Running && e.State != journal.Waiting || e.Live == nil || json.Unmarshal(e.Live, &s) != nil {
		return nil
	}
	return s.Questions
}

// Unanswered returns the questions of an execution, as they are stored, without those that have an answer: its process
// may have been killed before it stored that they are not open any more.
func Unanswered(ctx context.Context, runs *journal.Runs, e journal.Run) ([]question.Question, error) {
	open := QuestionsOf(e)
	if len(open) == 0 {
		return nil, nil
	}
	asked, err := journal.Asked(ctx, runs, e.Execution)
	if err != nil {
		return nil, err
	}
	answered := question.Answer{}
	for n, waits := range asked {
		if !waits {
			answered[question.ID(n)] = tool.Reply{}
		}
	}
	sent, err := journal.Signals(ctx, runs, e.Execution, AnswerEvent)
	for _, text := range sent {
		err = errors.Join(err, json.Unmarshal(text, &answered))
	}
	return slices.DeleteFunc(open, func(q question.Question) bool {
		_, ok := answered[q.ID]
		return ok
	}), err
}

// IsWoken reports whether an execution that waits without a process is about to run.
func IsWoken(e journal.Run) bool {
	return e.State == journal.Waiting && !e.Due.IsZero() && !e.Due.After(time.Now())
}

// Questions returns the open questions of a background execution, for an answer; another process may run it. If a
// process has just begun to, Questions waits for a while. The error is NotFound if there is no such execution, and
// Invalid if it asks nothing.
func Questions(ctx context.Context, runs *journal.Runs, id string) ([]question.Question, error) {
	for until := time.Now().Add(takeover); ; {
		e, err := runs.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if open := QuestionsOf(e); len(open) > 0 {
			return open, nil
		}
		begins := e.State == journal.Queued && e.Recorded || e.State == journal.Running && e.Live == nil
		if !begins || time.Now().After(until) {
			return nil, asksNothing(e)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(interval / 5):
		}
	}
}

// Expected returns the questions of an execution that are on record without an answer: they are open, or its code asks
// them again when it is continued after its process was killed. Only their ids are known.
func Expected(ctx context.Context, runs *journal.Runs, id string) (all []question.Question, err error) {
	asked, err := journal.Asked(ctx, runs, id)
	for _, n := range slices.Sorted(maps.Keys(asked)) {
		if asked[n] {
			all = append(all, question.Question{ID: question.ID(n)})
		}
	}
	return all, err
}

// Answer answers questions of a background execution. The process that runs it takes the answers soon, or when the code
// asks again, and one that waits without a process is continued; they are on disk when Answer returns. A question about an
// approval is answered in package approval.
func Answer(ctx context.Context, runs *journal.Runs, id string, a question.Answer) error {
	e, err := runs.Find(ctx, id)
	if err != nil {
		return err
	}
	open := QuestionsOf(e)
	for name, reply := range a {
		i := slices.IndexFunc(open, func(q question.Question) bool { return q.ID == name })
		switch {
		case i < 0:
			err = checkExpected(ctx, runs, e, name)
		case open[i].Approval != "":
			err = fault.New(fault.Invalid, "question %s is about an approval", name).
				WithHint("%s", fault.Approve(open[i].Approval))
		default:
			err = open[i].Check(reply)
		}
		if err != nil {
			return err
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return runs.Signal(ctx, id, AnswerEvent, text)
}

// checkExpected rejects an answer to a question that is neither open nor asked again by the resumed code.
func checkExpected(ctx context.Context, runs *journal.Runs, e journal.Run, name string) error {
	expected, err := Expected(ctx, runs, e.Execution)
	if err != nil || e.State != journal.Ended && slices.ContainsFunc(expected, func(q question.Question) bool { return q.ID == name }) {
		return err
	}
	var names []string
	for _, q := range QuestionsOf(e) {
		names = append(names, q.ID)
	}
	if len(names) == 0 {
		return asksNothing(e)
	}
	return fault.New(fault.NotFound, "execution %.60s has no open question %.40q", e.Execution, name).
		WithHint("its open questions are %s", strings.Join(names, ", "))
}

func asksNothing(e journal.Run) error {
	return fault.New(fault.Invalid, "execution %.60s asks no question now: it is %s", e.Execution, e.State).
		WithHint("`sandpiper executions list --background` lists executions")
}

// errExpected keeps answers to a question that the resumed code will ask again.
var errExpected = errors.New("the question is not asked yet")

// TakeAnswers delivers answers that were given in another process, or before the execution ran again. They stay on
// disk until they are on record.
func TakeAnswers(ctx context.Context, p Publisher) {
	err := journal.DeliverSignals(ctx, p.Runs, p.Execution, AnswerEvent, func(text json.RawMessage) error {
		var a question.Answer
		if err := json.Unmarshal(text, &a); err != nil {
			return err
		}
		var later error
		for id, reply := range a {
			err := p.Questions.Answer(ctx, question.Answer{id: reply})
			switch kind := fault.KindOf(err); {
			case err == nil:
			case kind == fault.NotFound && p.Questions.Expects(id):
				later = errExpected
			case kind == fault.NotFound:
				p.Log.Info("a question was answered twice", "execution", p.Execution)
			case kind == fault.Invalid:
				p.Log.Warn("an answer does not fit its question", "execution", p.Execution, "error", err)
			default:
				return err
			}
		}
		return later
	})
	if err != nil && err != errExpected {
		p.Log.Warn("take the answer to a question of a background execution", "execution", p.Execution, "error", err)
	}
}
