package journal

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// replied is the state of a question with a reply that the code has not got yet: a replay takes it.
const replied = "replied"

// recordedReply is the content of an entry in the state replied.
type recordedReply struct {
	Of    string          `json:"of"` // identifies what was asked
	Reply json.RawMessage `json:"reply"`
}

// SetReply records the reply to an open question. The number is that of AddQuestion, and of identifies what was
// asked. The reply is on disk when SetReply returns; if that fails, the question has none. The error is
// NotFound if the question is no longer open.
func SetReply(ctx context.Context, r *Record, number int, of string, reply json.RawMessage) error {
	if r == nil || r.pending.session {
		return nil
	}
	content, err := json.Marshal(recordedReply{of, reply})
	if err != nil {
		return err
	}
	r.waitForLater()
	r.mu.Lock()
	e := r.pending.open[number]
	if e == nil || r.pending.ended {
		r.mu.Unlock()
		return fault.New(fault.NotFound, "question %d is not open", number)
	}
	state, answer := e.state, e.answer
	e.state, e.answer = replied, content
	r.pending.mark(e)
	if err = r.commit(ctx, nil, false); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.state, e.answer = state, answer
	}
	return err
}

// TakeReply returns, once, a reply that an earlier run recorded for the question that of identifies: the oldest of
// several. It returns the number of the question for SetAnswer.
func TakeReply(r *Record, of string) (reply json.RawMessage, number int, ok bool) {
	if r == nil {
		return nil, 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.replay.replies {
		var was recordedReply
		if json.Unmarshal(e.answer, &was) == nil && was.Of == of {
			r.replay.replies = slices.Delete(r.replay.replies, i, i+1)
			return was.Reply, e.number, true
		}
	}
	return nil, 0, false
}

// DeliverSignal passes the oldest signal of an event to deliver, and deletes it if that returns nil.
func DeliverSignal(ctx context.Context, b *Runs, id, event string, deliver func(value json.RawMessage) error) error {
	number, value, err := findSignal(ctx, b.log, id, event)
	if err != nil || number == 0 {
		return err
	}
	if err := deliver(value); err != nil {
		return err
	}
	return b.log.calls.Update(ctx, func(tx *store.Tx) error {
		_, err := deleteSignal(ctx, tx, number)
		return err
	})
}
