package approval

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// pollInterval is how often Wait checks for an answer of another process.
const pollInterval = 250 * time.Millisecond

// Wait returns the request when it is no longer open: it was answered, possibly in another
// process, or it expired.
func (s *Store) Wait(ctx context.Context, id string) (Request, error) {
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	for {
		r, err := s.Find(ctx, id)
		switch {
		case err != nil:
			return r, err
		case r.State == Expired:
			return s.expire(ctx, r.ID)
		case r.State != Open:
			return r, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// expire records that a request has expired, unless that is recorded.
func (s *Store) expire(ctx context.Context, id string) (r Request, err error) {
	err = s.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		var state State
		if err := tx.QueryRowContext(ctx, "SELECT state FROM approvals WHERE id = ?", id).Scan(&state); err != nil {
			return err
		}
		if r, err = s.read(ctx, tx, id); err != nil || state == Expired {
			return err
		}
		return s.update(ctx, tx, r)
	})
	return r, err
}

// UntilAnswered calls ask, with a context that ends when a request is no longer open. It returns the request
// if that happened before ask returned or by ask, and nil with the error of ask otherwise.
func UntilAnswered(ctx context.Context, s *Store, id string, ask func(context.Context) error) (*Request, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	answered := make(chan Request, 1)
	go func() {
		defer close(answered)
		defer stop()
		if r, err := s.Wait(asking, id); err == nil {
			answered <- r
		}
	}()
	err := ask(asking)
	stop()
	if r, ok := <-answered; ok {
		return &r, nil
	}
	return nil, err
}
