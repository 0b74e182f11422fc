package execution

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// reservedEvent begins the names of events that no caller can send.
const reservedEvent = "\x00"

// answerEvent is the signal with answers to the questions of a background execution.
const answerEvent = reservedEvent + "answer"

// BackgroundQuestions returns the open questions of a background execution, which another process may
// run. The error is NotFound if there is no such execution, and Invalid if it asks nothing.
func (r *Runner) BackgroundQuestions(ctx context.Context, h *home.Home, id string) ([]question.Question, error) {
	e, err := h.Runs.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	var live Live
	if e.State == journal.Running && e.Live != nil {
		if err := json.Unmarshal(e.Live, &live); err != nil {
			return nil, err
		}
	}
	if len(live.Questions) == 0 {
		return nil, fault.New(fault.Invalid, "execution %.60s asks no question now: it is %s", id, e.State).
			WithHint("`sandpiper executions list --background` lists executions")
	}
	return live.Questions, nil
}

// AnswerBackground answers questions of a background execution. The process that runs it takes the
// answers soon; they are on disk when AnswerBackground returns. A question about an approval is
// answered in package approval.
func (r *Runner) AnswerBackground(ctx context.Context, h *home.Home, id string, a question.Answer) error {
	open, err := r.BackgroundQuestions(ctx, h, id)
	if err != nil {
		return err
	}
	byID, names := map[string]question.Question{}, []string{}
	for _, q := range open {
		byID[q.ID] = q
		names = append(names, q.ID)
	}
	for name, reply := range a {
		q, ok := byID[name]
		switch {
		case !ok:
			return fault.New(fault.NotFound, "execution %.60s has no open question %.40q", id, name).
				WithHint("its open questions are %s", strings.Join(names, ", "))
		case q.Approval != "":
			return fault.New(fault.Invalid, "question %s is about an approval", name).
				WithHint("%s", fault.Approve(q.Approval))
		}
		if err := q.Check(reply); err != nil {
			return err
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return h.Runs.Signal(ctx, id, answerEvent, text)
}

// takeAnswers delivers answers that were given in another process. They stay on disk until they are on
// record.
func (r *Runner) takeAnswers(ctx context.Context, h *home.Home, x *run) {
	err := journal.DeliverSignal(ctx, h.Runs, x.id, answerEvent, func(text json.RawMessage) error {
		var a question.Answer
		if err := json.Unmarshal(text, &a); err != nil {
			return err
		}
		for id, reply := range a {
			err := x.questions.Answer(ctx, question.Answer{id: reply})
			switch kind := fault.KindOf(err); {
			case err == nil:
			case kind == fault.NotFound:
				r.cfg.Log.Info("a question was answered twice", "execution", x.id)
			case kind == fault.Invalid:
				r.cfg.Log.Warn("an answer does not fit its question", "execution", x.id, "error", err)
			default:
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.cfg.Log.Warn("take the answer to a question of a background execution", "execution", x.id, "error", err)
	}
}
