package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

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

// AddReply records a reply that was given in another way than to an open question of the record, for TakeReply. It is on
// disk when AddReply returns.
func AddReply(ctx context.Context, r *Record, of string, reply json.RawMessage) error {
	content, err := json.Marshal(recordedReply{of, reply})
	if err != nil {
		return err
	}
	r.waitForLater()
	r.mu.Lock()
	e := r.pending.add(HostCall{Method: question, Args: fmt.Appendf(nil, "0 %s 0", of)})
	e.state, e.answer = replied, content
	r.replay.replies = append(r.replay.replies, e)
	return r.commit(ctx, nil, false)
}

// TakeReply returns, once, a reply that an earlier run recorded for the question that of identifies: the
// oldest of several. A later run gets it again unless the call of ctx is answered; without a call, it is used
// up at once.
func TakeReply(ctx context.Context, r *Record, of string) (reply json.RawMessage, ok bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.replay.replies {
		var was recordedReply
		if json.Unmarshal(e.answer, &was) == nil && was.Of == of {
			r.replay.replies = slices.Delete(r.replay.replies, i, i+1)
			if e.asker = callOf(ctx); e.asker == 0 {
				r.pending.answer(e, Answer{})
			}
			return was.Reply, true
		}
	}
	return nil, false
}

// Asked returns the questions of an execution that are on record, by their numbers: true for those that have no reply
// and that the code waits for, or asks again when a process continues it.
func Asked(ctx context.Context, b *Runs, id string) (open map[int]bool, err error) {
	x, err := b.log.cipher(id)
	if err != nil {
		return nil, err
	}
	err = b.log.calls.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT number, state, arguments FROM run_events WHERE execution = ? AND number > 0 AND method "+
			"= ? ORDER BY number", id, question)
		if err != nil {
			return err
		}
		defer rows.Close()
		open = map[int]bool{}
		for rows.Next() {
			var number, name int
			var state string
			var ciphertext []byte
			if err := rows.Scan(&number, &state, &ciphertext); err != nil {
				return err
			}
			args, err := x.decrypt(ofArguments, number, ciphertext)
			if err == nil {
				_, err = fmt.Sscan(string(args), &name)
			}
			if err != nil {
				return err
			}
			open[name] = state == asked // a later run may have asked it again
		}
		return rows.Err()
	})
	return open, err
}

// OpenUntil returns when a question that an earlier run asked and had no answer to is no longer open; zero for any
// other.
func OpenUntil(r *Record, of string) time.Time {
	if r == nil {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replay.until[of]
}

// EndQuestion ends a question that is not asked any more. One with a reply to a call ends with the answer of
// the call: until then, a later run gets the reply again.
func EndQuestion(r *Record, number int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.pending.open[number]; e != nil && (e.state != replied || e.asker == 0) {
		r.pending.answer(e, Answer{})
	}
}

type callKey struct{}

// WithCall returns a context of what is done for the host call with a number.
func WithCall(ctx context.Context, number int) context.Context {
	return context.WithValue(ctx, callKey{}, number)
}

func callOf(ctx context.Context) int {
	number, _ := ctx.Value(callKey{}).(int)
	return number
}
