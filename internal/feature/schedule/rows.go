package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule/calendar"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Source is where a schedule comes from.
type Source string

const (
	Configuration Source = "configuration"
	Agent         Source = "agent" // created by the tool create_schedule
)

// Schedule is a schedule and its state.
type Schedule struct {
	Spec
	Source  Source
	Created time.Time // zero for one that no daemon has seen yet
	Paused  bool
	Next    time.Time // the next due time, also of a paused one
	Waiting int       // runs that wait for an earlier one
	Last    *Run      // the latest run that was not just skipped or missed; nil for none
	Passed  *Run      // a later due time without a run; nil for none
	PutBack *PutBack  // the last time that the clock was put back; nil for none
	Damaged error     // why it cannot be run; nil if it can
}

// Run is one due time of a schedule.
type Run struct {
	Due       time.Time
	Execution string    // "" unless it was started
	State     string    // Started, Waiting, Skipped, Passed, Unknown or an outcome of a background execution
	Ended     time.Time // when its end was noticed; zero if it has not ended
}

// PutBack is the time at which a schedule noticed that the clock had been put back.
type PutBack struct {
	At time.Time
	By time.Duration // at least, if no daemon was running then
}

// States of runs other than the outcomes of executions.
const (
	Started = "started"
	Waiting = "waiting" // for an earlier run
	Skipped = "skipped" // an earlier run had not ended
	Passed  = "missed"  // no daemon was running
	Unknown = "unknown" // it was started, and its outcome was deleted before it was read

	clockPutBack = "clock" // no run: the clock was put back from due or later to handled
)

// row is a row of schedules with its specification.
type row struct {
	spec                     Spec
	cal                      calendar.Calendar
	source                   Source
	created, anchor, handled time.Time
	timing                   string
	paused                   bool
	stored                   bool // has a row
	broken                   error
	putBack                  time.Duration // by refresh, at least
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// rows returns the schedules that are configured or were created by an agent, by name. Rows of
// schedules in the configuration of another daemon are left out.
func (s *Store) rows(ctx context.Context, tx *store.Tx, configured []Spec) ([]row, error) {
	byName := map[string]row{}
	for _, spec := range configured {
		byName[spec.Name] = row{spec: spec, source: Configuration}
	}
	bodies, err := s.specs.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, b := range bodies {
		if _, isConfigured := byName[b.Name]; !isConfigured {
			r := row{source: Agent}
			r.spec, r.broken = decode(b)
			byName[b.Name] = r
		}
	}
	rows, err := tx.QueryContext(ctx, "SELECT name, created, timing, anchor, handled, paused FROM schedules")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, timing string
		var created, anchor, handled int64
		var paused bool
		if err := rows.Scan(&name, &created, &timing, &anchor, &handled, &paused); err != nil {
			return nil, err
		}
		if r, ok := byName[name]; ok {
			r.created, r.timing, r.anchor, r.handled, r.paused, r.stored = fromMillis(created), timing, fromMillis(anchor),
				fromMillis(handled), paused, true
			byName[name] = r
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	all := make([]row, 0, len(byName))
	for _, r := range byName {
		if r.broken == nil {
			r.cal, r.broken = r.spec.Check()
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b row) int { return cmp.Compare(a.spec.Name, b.spec.Name) })
	return all, nil
}

// write stores the state of a row. One of the configuration replaces one of that name that an agent has
// created.
func (s *Store) write(ctx context.Context, tx *store.Tx, r row) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO schedules (name, created, timing, anchor, handled, paused) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET timing = excluded.timing, anchor = excluded.anchor, handled = excluded.handled, paused = excluded.paused`,
		r.spec.Name, millis(r.created), r.timing, millis(r.anchor), millis(r.handled), r.paused)
	if err == nil && r.source == Configuration {
		_, err = s.specs.Delete(ctx, tx, r.spec.Name)
	}
	return err
}

// refresh adapts r to the time and to a changed calendar, and reports whether it has changed.
func (r *row) refresh(now time.Time) bool {
	now = now.Truncate(time.Millisecond)
	timing := r.spec.timing()
	switch {
	case !r.stored:
		r.created, r.anchor, r.handled, r.timing = now, now, now, timing
	case r.timing != timing:
		r.anchor, r.handled, r.timing = now, now, timing
	default:
		return r.adjust(now)
	}
	r.stored = true
	return true
}

// longestStep is how far the clock may be put back without due times of a cron expression being
// handled again, if they are not much closer to each other. A larger step corrects a clock that was
// wrong.
const longestStep = 25 * time.Hour

// adjust adapts r to a clock that was put back: an interval ends when it has elapsed, and the due
// times of a cron expression that were handled are repeated if the schedule were silent for more than
// one and a half of its intervals otherwise. It reports whether r has changed.
func (r *row) adjust(now time.Time) bool {
	if r.broken != nil {
		return false
	}
	next := r.cal.Next(r.anchor, r.handled)
	if every := r.spec.Every; every != 0 {
		by := next.Sub(now) - clock.Left(next, now, every)
		if by < time.Millisecond {
			return false
		}
		r.putBack, r.anchor, r.handled = by, r.anchor.Add(-by), r.handled.Add(-by)
		return true
	}
	by := r.handled.Sub(now)
	if by <= 0 {
		return false
	}
	first := r.cal.Next(r.anchor, now)
	gap := max(r.cal.Next(r.anchor, first).Sub(first), next.Sub(r.handled)) // due times may have unequal distances
	if by <= longestStep && next.Sub(now) < gap+gap/2 {
		return false
	}
	r.putBack, r.anchor, r.handled = by, now, now
	return true
}

// next returns the first due time that was not handled.
func (r row) next(now time.Time) time.Time {
	if r.broken != nil {
		return time.Time{}
	}
	if !r.stored {
		r.anchor, r.handled = now, now
	}
	return r.cal.Next(r.anchor, r.handled)
}

// find returns the row with this name.
func (s *Store) find(ctx context.Context, tx *store.Tx, configured []Spec, name string) (row, error) {
	all, err := s.rows(ctx, tx, configured)
	if err != nil {
		return row{}, err
	}
	i := slices.IndexFunc(all, func(r row) bool { return r.spec.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, r := range all {
			names[i] = r.spec.Name
		}
		e := fault.New(fault.NotFound, "there is no schedule %.70q", name)
		if near := fault.Nearest(name, names, 1); len(near) > 0 {
			return row{}, e.WithHint("did you mean %q?", near[0])
		}
		return row{}, e.WithHint("list_schedules, or `sandpiper schedules list`, shows them")
	}
	return all[i], nil
}

// unfinished returns the runs of a schedule that have not ended, the oldest first; of all
// schedules if name is "". It also returns which of the started ones have ended.
func (s *Store) unfinished(ctx context.Context, tx *store.Tx, name string) (all []numbered, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT number, schedule, due, state, execution FROM schedule_runs WHERE state IN ('started', "+
		"'waiting') AND (? = '' OR schedule = ?) ORDER BY number", name, name)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var r numbered
		var due int64
		if err := rows.Scan(&r.number, &r.schedule, &due, &r.State, &r.Execution); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		r.Due = fromMillis(due)
		all = append(all, r)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i, r := range all {
		if r.State != Started {
			continue
		}
		outcome, err := s.cfg.Executions.OutcomeIn(ctx, tx, r.Execution)
		if fault.KindOf(err) == fault.NotFound {
			outcome, err = Unknown, nil
		}
		if err != nil {
			return nil, err
		}
		if outcome != "" {
			all[i].State, all[i].ended = outcome, true
		}
	}
	return all, nil
}

// numbered is a run with its row number.
type numbered struct {
	Run
	number   int64
	schedule string
	ended    bool // State is its outcome, which is not stored yet
}

// latest returns the last run of a schedule that was started, and a later due time without one.
func (s *Store) latest(ctx context.Context, tx *store.Tx, name string) (last, passed *Run, err error) {
	one := func(which string) (*Run, int64, error) {
		var r Run
		var number, due, ended int64
		query := "SELECT number, due, state, execution, ended FROM schedule_runs WHERE schedule = ? AND state IN ('skipped', 'missed') " +
			"ORDER BY number DESC LIMIT 1"
		if which == Started {
			query = "SELECT number, due, state, execution, ended FROM schedule_runs WHERE schedule = ? AND state NOT IN ('skipped', " +
				"'missed', 'waiting', 'clock') ORDER BY number DESC LIMIT 1"
		}
		err := tx.QueryRowContext(ctx, query, name).Scan(&number, &due, &r.State, &r.Execution, &ended)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, 0, nil
		}
		if r.Due = fromMillis(due); ended != 0 {
			r.Ended = fromMillis(ended)
		}
		return &r, number, err
	}
	last, number, err := one(Started)
	if err != nil {
		return nil, nil, err
	}
	passed, later, err := one(Passed)
	if later < number {
		passed = nil
	}
	return last, passed, err
}

// lastPutBack returns when the clock was last put back, as the rows of a schedule have it.
func lastPutBack(ctx context.Context, tx *store.Tx, name string) (*PutBack, error) {
	var due, handled int64
	err := tx.QueryRowContext(ctx, "SELECT due, handled FROM schedule_runs WHERE schedule = ? AND state = 'clock' ORDER BY number DESC "+
		"LIMIT 1", name).Scan(&due, &handled)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &PutBack{fromMillis(handled), time.Duration(due-handled) * time.Millisecond}, err
}
