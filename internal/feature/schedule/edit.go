package schedule

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// List returns the configured schedules and those that an agent has created, by name.
func (s *Store) List(ctx context.Context, now time.Time, configured []Spec) (all []Schedule, err error) {
	err = s.cfg.In.DB.View(ctx, func(tx *store.Tx) error {
		rows, err := s.rows(ctx, tx, configured)
		if err != nil {
			return err
		}
		open, err := s.unfinished(ctx, tx, "")
		if err != nil {
			return err
		}
		all = nil
		for _, r := range rows {
			r.refresh(now)
			one := Schedule{
				Spec:    r.spec,
				Source:  r.source,
				Created: r.created,
				Paused:  r.paused,
				Damaged: r.broken,
				Next:    r.next(now),
			}
			if one.Last, one.Passed, err = s.latest(ctx, tx, r.spec.Name); err != nil {
				return err
			}
			if one.PutBack, err = lastPutBack(ctx, tx, r.spec.Name); err != nil {
				return err
			}
			for _, o := range open {
				switch {
				case o.schedule != r.spec.Name:
				case o.State == Waiting:
					one.Waiting++
				case one.Last != nil && one.Last.Execution == o.Execution:
					one.Last.State = o.State // its outcome is not stored yet
				}
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// Create stores a schedule of an agent. Its first due time is after now.
func (s *Store) Create(ctx context.Context, now time.Time, configured []Spec, spec Spec) (Schedule, error) {
	cal, err := spec.Check()
	if err != nil {
		return Schedule{}, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return Schedule{}, err
	}
	r := row{spec: spec, cal: cal, source: Agent}
	r.refresh(now)
	err = s.update(ctx, now, configured, func(tx *store.Tx, rows []row) error {
		created := 0
		for _, o := range rows {
			if o.spec.Name == spec.Name {
				return fault.New(fault.Invalid, "there is a schedule %q already", spec.Name).
					WithHint("delete it first, or use another name; one of the configuration can only be changed there")
			}
			if o.source == Agent {
				created++
			}
		}
		if created >= MaxStored {
			return fault.New(fault.Exhausted, "%d schedules were created, which is the maximum", created).
				WithHint("delete some with delete_schedule")
		}
		if err := s.write(ctx, tx, r); err != nil {
			return err
		}
		_, err := s.specs.Put(ctx, tx, spec.Name, text)
		return err
	})
	return Schedule{Spec: spec, Source: Agent, Created: r.created, Next: r.next(now)}, err
}

// Delete deletes a schedule that an agent has created. Runs that were started continue.
func (s *Store) Delete(ctx context.Context, now time.Time, configured []Spec, name string) error {
	return s.update(ctx, now, configured, func(tx *store.Tx, rows []row) error {
		r, err := s.find(ctx, tx, configured, name)
		if err != nil {
			return err
		}
		if r.source != Agent {
			return fault.New(fault.Denied, "schedule %q is in the configuration", name).
				WithHint("remove it there, or pause it with `sandpiper schedules pause %s`", name)
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM schedule_runs WHERE schedule = ?", name); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM schedules WHERE name = ?", name); err != nil {
			return err
		}
		_, err = s.specs.Delete(ctx, tx, name)
		return err
	})
}

// SetPaused pauses or resumes a schedule. Due times of a paused schedule are not run later.
func (s *Store) SetPaused(ctx context.Context, now time.Time, configured []Spec, name string, paused bool) error {
	return s.update(ctx, now, configured, func(tx *store.Tx, _ []row) error {
		r, err := s.find(ctx, tx, configured, name)
		if err != nil {
			return err
		}
		r.refresh(now)
		if r.paused && !paused && r.handled.Before(now) {
			r.handled = now
		}
		r.paused = paused
		return s.write(ctx, tx, r)
	})
}

// RunNow starts a run of a schedule at once, even if it is paused, and returns its execution. Its
// due times stay the same.
func (s *Store) RunNow(ctx context.Context, now time.Time, configured []Spec, name string, request Request) (id string, err error) {
	err = s.update(ctx, now, configured, func(tx *store.Tx, _ []row) error {
		r, err := s.find(ctx, tx, configured, name)
		if err != nil {
			return err
		}
		if r.broken != nil {
			return r.broken
		}
		open, err := s.unfinished(ctx, tx, name)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(open, func(o numbered) bool { return !o.ended }); i >= 0 {
			return fault.New(fault.Unavailable, "schedule %q was not run: an earlier run has not ended", name).
				WithHint("wait for it, or cancel it: `sandpiper executions cancel %s`", open[i].Execution)
		}
		r.refresh(now)
		if err := s.write(ctx, tx, r); err != nil {
			return err
		}
		text, err := request(r.spec)
		if err != nil {
			return err
		}
		d := due{Store: s, tx: tx, now: now, request: func(Spec) ([]byte, error) { return text, nil }, runs: map[string][]numbered{}}
		if err := d.start(ctx, &r, now, 0); err != nil {
			return err
		}
		id = d.started[0]
		return nil
	})
	return id, err
}

// update runs f in a transaction, and records when the next run is.
func (s *Store) update(ctx context.Context, now time.Time, configured []Spec, f func(*store.Tx, []row) error) error {
	return s.cfg.In.DB.Update(ctx, func(tx *store.Tx) error {
		rows, err := s.rows(ctx, tx, configured)
		if err != nil {
			return err
		}
		if err := f(tx, rows); err != nil {
			return err
		}
		if rows, err = s.rows(ctx, tx, configured); err != nil {
			return err
		}
		return s.touch(ctx, tx, rows, now)
	})
}

// Settle stores the outcomes of the runs that have ended, before their executions are deleted.
func (s *Store) Settle(ctx context.Context, now time.Time) error {
	settle := func(dry bool, changed *bool) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			d := due{Store: s, tx: tx, now: now, dry: dry}
			err := d.settle(ctx)
			*changed = d.changed
			return err
		}
	}
	var changed bool
	if err := s.cfg.In.DB.View(ctx, settle(true, &changed)); err != nil || !changed {
		return err
	}
	return s.cfg.In.DB.Update(ctx, settle(false, &changed))
}
