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
	e := r.pending.open[number]
	if e == nil {
		r.mu.Unlock()
		return fault.New(fault.Internal, "call %d is not open", number)
	}
	if r.pending.session { // it is in memory
		r.pending.answer(e, a)
		r.mu.Unlock()
		return nil
	}
	// it does not wait for another commit
	if r.pending.kept += len(encoded); len(encoded) > maxWaiting || r.pending.kept+r.pending.waiting > maxRun {
		r.pending.drop()
	}
	r.pending.endQuestions(e)
	set, answers := *e, true
	set.state, set.answer = stateOf(a), encoded
	if first == nil {
		err = commitAnswer(ctx, r, set)
	} else {
		answers, err = commitWith(ctx, r, set, first)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || !answers {
		r.pending.kept -= len(encoded)
		return err
	}
	if of := r.pending.open[e.ask.Step]; of != nil {
		of.inner += len(encoded)
	}
	e.state, e.answer = set.state, encoded
	delete(r.pending.open, number)
	return nil
}

// commitAnswer commits the dirty entries and then e. The caller holds the lock; commitAnswer releases it.
func commitAnswer(ctx context.Context, r *Record, e entry) error {
	if !r.pending.stored {
		if err := setCipher(r); err != nil {
			r.mu.Unlock()
			return err
		}
	}
	return r.commit(ctx, answerLine(r, e), false)
}

// answerLine returns the line of an answer, none if the record is too large.
func answerLine(r *Record, e entry) []line {
	if r.pending.large {
		return nil
	}
	return []line{entryLine(r, e)}
}

// commitWith commits the dirty entries, and then e with first in one transaction, unless first returns
// false. The caller holds the lock; commitWith releases it.
func commitWith(ctx context.Context, r *Record, e entry, first func(context.Context, *store.Tx) (bool, error)) (answers bool, err error) {
	_, err = r.append(ctx, nil)
	lines := answerLine(r, e)
	r.mu.Unlock()
	if err != nil {
		return false, err
	}
	err = r.log.calls.Update(ctx, func(tx *store.Tx) (err error) {
		if answers, err = first(ctx, tx); err != nil || !answers {
			return err
		}
		for _, l := range lines {
			if err := putHostCall(ctx, tx, l); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE runs SET bytes = bytes + ? WHERE execution = ?", len(l.answer), r.id); err != nil {
				return err
			}
		}
		return nil
	})
	return answers, err
}
