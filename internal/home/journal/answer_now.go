package journal

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// SetAnswerNow records an answer and commits it. If that fails, the call has no answer.
func (r *Record) SetAnswerNow(ctx context.Context, number int, a Answer) error {
	if r == nil {
		return nil
	}
	return answerNow(ctx, r, number, a, nil)
}

// answerNow commits the answer of an open call, and only then sets it: no other thread and no other
// commit sees it before. In the same commit first makes another change; if it returns false, the call
// is not answered. nil means that there is none.
func answerNow(ctx context.Context, r *Record, number int, a Answer, first func(context.Context, *store.Tx) (bool, error)) error {
	encoded, err := a.encode()
	if err != nil {
		return err
	}
	r.waitForLater()
	r.mu.Lock()
	e := r.open[number]
	if e == nil {
		r.mu.Unlock()
		return fault.New(fault.Internal, "call %d is not open", number)
	}
	if r.session { // it is in memory
		r.setAnswer(e, a)
		r.mu.Unlock()
		return nil
	}
	if r.kept += len(encoded); len(encoded) > maxWaiting || r.kept+r.waiting > maxRun { // it does not wait for another commit
		r.drop()
	}
	set, large := *e, r.large
	set.state, set.answer = stateOf(a), encoded
	answers := true
	err = r.commit(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if first != nil {
			if answers, err = first(ctx, tx); err != nil || !answers {
				return err
			}
		}
		if large {
			return nil
		}
		w := row{set, r.box.encrypt(ofArguments, number, set.ask.Args), r.box.encrypt(ofAnswer, number, encoded)}
		if err := w.put(ctx, tx, r.id); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE runs SET bytes = bytes + ? WHERE execution = ?", len(encoded), r.id)
		return err
	}, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || !answers {
		r.kept -= len(encoded)
		return err
	}
	if of := r.open[e.ask.Step]; of != nil {
		of.inner += len(encoded)
	}
	e.state, e.answer = set.state, encoded
	delete(r.open, number)
	return nil
}
