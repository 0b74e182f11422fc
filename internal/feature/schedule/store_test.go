package schedule_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// executions are background executions with an outcome and nothing else.
type executions struct{}

const executionTables = "CREATE TABLE executions (number INTEGER PRIMARY KEY, id TEXT UNIQUE, request BLOB, outcome TEXT DEFAULT '');"

func (executions) AddIn(ctx context.Context, tx *store.Tx, id string, request []byte) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO executions (id, request) VALUES (?, ?)", id, request)
	return err
}

func (executions) OutcomeIn(ctx context.Context, tx *store.Tx, id string) (outcome string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT outcome FROM executions WHERE id = ?", id).Scan(&outcome)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, "no execution %s", id)
	}
	return outcome, err
}

// daemon is one process with the database of a tenant.
type daemon struct {
	*schedule.Store
	t     *testing.T
	path  string
	db    *store.DB
	specs []schedule.Spec
	due   *time.Time
}

func start(t *testing.T, path string, specs ...schedule.Spec) daemon {
	t.Helper()
	db, err := store.Open(t.Context(), path, []store.Migration{{Number: 1, Name: "all", SQL: sealed.Tables + schedule.Feature().
		Home.Tables[0].SQL + executionTables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	due := new(time.Time)
	cipher, err := sealed.New(bytes.Repeat([]byte{7}, 32), "alice")
	if err != nil {
		t.Fatal(err)
	}
	s := schedule.New(schedule.Config{In: sealed.Store{DB: db, Cipher: cipher}, Executions: executions{},
		Due: func(at time.Time) error { *due = at; return nil }})
	return daemon{s, t, path, db, specs, due}
}

func request(s schedule.Spec) ([]byte, error) { return []byte(s.Name), nil }

// at makes a pass at a time and returns the number of runs that it started.
func (d daemon) at(now time.Time) int {
	d.t.Helper()
	p, err := d.HandleDue(d.t.Context(), now, d.specs, request, func(s schedule.Spec, err error) { d.t.Errorf("%s: %v", s.Name, err) })
	if err != nil {
		d.t.Fatal(err)
	}
	return len(p.Started)
}

// end ends all executions.
func (d daemon) end(outcome string) {
	d.t.Helper()
	err := d.db.Update(d.t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(d.t.Context(), "UPDATE executions SET outcome = ? WHERE outcome = ''", outcome)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d daemon) list(now time.Time) []schedule.Schedule {
	d.t.Helper()
	all, err := d.List(d.t.Context(), now, d.specs)
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

func clock(t *testing.T, zone, text string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "tenant.db") }

var hourly = schedule.Spec{Name: "report", Cron: "0 * * * *", TimeZone: "UTC", Skill: "report"}

// Each second of the days on which the clocks change, two daemons look for work in turn, and both
// are replaced by new ones in between.
func TestDaylightSavingWithTwoDaemonsAndRestarts(t *testing.T) {
	for _, c := range []struct{ from, to, cron, want string }{
		{"2026-03-28 12:00", "2026-03-30 12:00", "30 2 * * *", "03-29 03:00+02 03-30 02:30+02"},
		{"2026-10-24 12:00", "2026-10-26 12:00", "30 2 * * *", "10-25 02:30+02 10-26 02:30+01"},
		{"2026-10-25 01:00", "2026-10-25 03:59", "0 * * * *", "10-25 02:00+02 10-25 02:00+01 10-25 03:00+01"},
	} {
		spec := schedule.Spec{Name: "nightly", Cron: c.cron, TimeZone: "Europe/Berlin", Skill: "report"}
		path := file(t)
		a, b := start(t, path, spec), start(t, path, spec)
		var got []string
		now, end := clock(t, "Europe/Berlin", c.from), clock(t, "Europe/Berlin", c.to)
		for n := 0; now.Before(end); n++ {
			if n := a.at(now) + b.at(now.Add(300*time.Millisecond)); n > 0 {
				got = append(got, fmt.Sprint(strings.Repeat("twice: ", n-1), now.Format("01-02 15:04-07")))
			}
			if a.end("completed"); n%37 == 0 {
				a, b = start(t, path, spec), start(t, path, spec)
			}
			now = now.Add(5 * time.Minute)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s from %s: %s", c.cron, c.from, diff)
		}
	}
}

// Many daemons handle the same due times concurrently: each run is started once.
func TestConcurrentDaemonsStartEachRunOnce(t *testing.T) {
	path := file(t)
	var specs []schedule.Spec
	for i := range 300 {
		specs = append(specs, schedule.Spec{Name: fmt.Sprintf("s%03d", i), Every: time.Minute, Skill: "report"})
	}
	now := clock(t, "UTC", "2026-11-24 10:00")
	daemons := []daemon{start(t, path, specs...), start(t, path, specs...), start(t, path, specs...)}
	daemons[0].at(now)
	now = now.Add(time.Minute)
	var all sync.WaitGroup
	for _, d := range daemons {
		all.Go(func() {
			for {
				p, err := d.HandleDue(context.Background(), now, specs, request, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if p.Next.After(now) {
					return
				}
			}
		})
	}
	all.Wait()
	var n, names int
	err := daemons[0].db.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT request) FROM executions").Scan(&n, &names)
	})
	if err != nil || n != 300 || names != 300 {
		t.Errorf("%d runs of %d schedules: %v", n, names, err)
	}
}

func TestMissed(t *testing.T) {
	noon := clock(t, "UTC", "2026-11-24 12:00")
	for _, c := range []struct {
		missed schedule.Missed
		after  time.Duration // of the pass after a suspension that began at noon
		starts int
		state  string
	}{
		{schedule.RunOnce, 5*time.Hour + 10*time.Minute, 1, schedule.Started},
		{"", 5*time.Hour + 10*time.Minute, 1, schedule.Started},
		{schedule.SkipMissed, 5*time.Hour + 10*time.Minute, 0, schedule.Passed},
		{schedule.SkipMissed, 5*time.Hour + 30*time.Second, 1, schedule.Started}, // only a little late
		{schedule.RunOnce, 50 * time.Minute, 0, ""},
	} {
		spec := hourly
		spec.OnMissed = c.missed
		path := file(t)
		start(t, path, spec).at(noon)
		d := start(t, path, spec)
		now := noon.Add(c.after)
		if n := d.at(now); n != c.starts {
			t.Errorf("%s after %s: %d started, want %d", c.missed, c.after, n, c.starts)
		}
		d.end("completed")
		if n := d.at(now.Add(time.Second)); n != 0 {
			t.Errorf("%s after %s: %d started again", c.missed, c.after, n)
		}
		one, state := d.list(now)[0], ""
		switch {
		case one.Passed != nil:
			state = one.Passed.State
		case one.Last != nil:
			if state = schedule.Started; one.Last.State != "completed" {
				t.Errorf("the outcome is %q", one.Last.State)
			}
		}
		if state != c.state {
			t.Errorf("%s after %s: state %q, want %q", c.missed, c.after, state, c.state)
		}
	}
}

func TestOverlap(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	spec := hourly
	d := start(t, file(t), spec)
	d.at(now)
	starts := func(d daemon, hour int) int { return d.at(now.Add(time.Duration(hour) * time.Hour)) }
	if n := starts(d, 1) + starts(d, 2) + starts(d, 3); n != 1 {
		t.Errorf("%d runs started, want 1: the first has not ended", n)
	}
	if one := d.list(now)[0]; one.Passed == nil || one.Passed.State != schedule.Skipped {
		t.Errorf("the skipped run is not recorded: %+v", one.Passed)
	}
	if d.end("completed"); starts(d, 4) != 1 {
		t.Error("no run started after the first has ended")
	}

	spec.OnOverlap = schedule.QueueOverlap
	d = start(t, file(t), spec)
	d.at(now)
	if n := starts(d, 1) + starts(d, 2) + starts(d, 3); n != 1 || d.list(now)[0].Waiting != 2 {
		t.Errorf("%d runs started and %d wait, want 1 and 2", n, d.list(now)[0].Waiting)
	}
	for range 2 {
		if d.end("failed"); starts(d, 3) != 1 || starts(d, 3) != 0 {
			t.Error("not exactly one waiting run started")
		}
	}
	if one := d.list(now)[0]; one.Waiting != 0 || one.Last.State != schedule.Started {
		t.Errorf("after all runs: %+v", one)
	}
}

func TestClockGoesBack(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	d := start(t, file(t), hourly)
	d.at(now)
	n := d.at(now.Add(40 * time.Minute)) // 13:10
	d.end("completed")
	n += d.at(now.Add(10 * time.Minute)) // 12:40
	n += d.at(now.Add(35 * time.Minute)) // 13:05, again
	if n != 1 {
		t.Errorf("the run at 13:00 was started %d times", n)
	}
	if d.at(now.Add(95*time.Minute)) != 1 {
		t.Error("no run at 14:00")
	}
	d.end("completed")
	d.at(now.Add(20 * 365 * 24 * time.Hour)) // the clock was wrong
	d.end("completed")
	if d.at(now.Add(97*time.Minute)) != 0 || d.at(now.Add(155*time.Minute)) != 1 {
		t.Error("after a wrong clock was corrected, the run at 15:00 was not started")
	}
}

// After the clock was put back, no schedule is silent for more than one and a half of its intervals,
// rare due times are not repeated, and the list says when that was.
func TestScheduleAfterClockIsPutBack(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	interval := schedule.Spec{Name: "interval", Every: 10 * time.Minute, Skill: "report"}
	often := schedule.Spec{Name: "often", Cron: "*/5 * * * *", TimeZone: "UTC", Skill: "report"}
	daily := schedule.Spec{Name: "daily", Cron: "0 12 * * *", TimeZone: "UTC", Skill: "report"}
	d := start(t, file(t), interval, often, daily)
	d.at(now.Add(-time.Hour))
	for minute := -59; minute <= 0; minute++ {
		d.at(now.Add(time.Duration(minute) * time.Minute))
		d.end("completed")
	}
	if s := d.list(now); s[0].PutBack != nil || s[1].PutBack != nil || s[2].PutBack != nil {
		t.Fatalf("%+v", s)
	}
	back := now.Add(4*time.Minute - time.Hour) // 11:34 after 12:34, by another process
	d = start(t, d.path, interval, often, daily)
	d.at(back)
	started := map[int]int{}
	for minute := 1; minute <= 30; minute++ {
		started[minute] = d.at(back.Add(time.Duration(minute) * time.Minute))
		d.end("completed")
	}
	// The interval ends 10 minutes later, and the others at 11:35, 11:40 and so on; not at 12:00 again.
	want := map[int]int{1: 1, 6: 1, 10: 1, 11: 1, 16: 1, 20: 1, 21: 1, 26: 1, 30: 1}
	for minute := range 31 {
		if started[minute] != want[minute] {
			t.Errorf("%d runs were started %d minutes later, want %d", started[minute], minute, want[minute])
		}
	}
	s := d.list(back.Add(30 * time.Minute))
	for i, by := range map[int]time.Duration{1: 46 * time.Minute, 2: 56 * time.Minute} {
		if p := s[i].PutBack; p == nil || !p.At.Equal(back) || p.By < by || p.By > time.Hour {
			t.Errorf("%s: %+v", s[i].Name, p)
		}
	}
	if s[0].Name != "daily" || s[0].PutBack != nil || s[1].Last == nil || s[1].Last.State != "completed" {
		t.Errorf("%+v", s[0])
	}
}

// A clock that was put back by a little does not repeat due times with unequal distances.
func TestUnequalDueTimesAreNotRepeated(t *testing.T) {
	for _, tc := range []struct{ cron, at, back string }{
		{"0,1 * * * *", "2026-11-24 12:01", "2026-11-24 11:59"},
		{"0,5 3 * * *", "2026-11-24 03:05", "2026-11-24 02:59"},
		{"0 9-17 * * 1-5", "2026-11-24 17:00", "2026-11-24 15:55"},
	} {
		spec := schedule.Spec{Name: "pay", Cron: tc.cron, TimeZone: "UTC", Skill: "report"}
		now := clock(t, "UTC", tc.at)
		d := start(t, file(t), spec)
		d.at(now.Add(-2 * time.Hour))
		d.at(now)
		d.end("completed")
		d = start(t, d.path, spec)
		runs := 0
		for minute := range 70 {
			at := clock(t, "UTC", tc.back).Add(time.Duration(minute) * time.Minute)
			if at.After(now) {
				break
			}
			runs += d.at(at)
			d.end("completed")
		}
		if runs != 0 {
			t.Errorf("%s: %d runs were repeated", tc.cron, runs)
		}
	}
}

func TestPausedAndChanged(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	d := start(t, file(t), hourly)
	d.at(now)
	hour := func(n float64) time.Time { return now.Add(time.Duration(n * float64(time.Hour))) }
	if err := d.SetPaused(t.Context(), now, d.specs, "report", true); err != nil {
		t.Fatal(err)
	}
	if n := d.at(hour(1)); n != 0 || !d.list(now)[0].Paused {
		t.Error("a paused schedule was run")
	}
	id, err := d.RunNow(t.Context(), hour(1.1), d.specs, "report", request)
	if err != nil || d.list(now)[0].Last.Execution != id {
		t.Errorf("run by hand: %v", err)
	}
	if _, err := d.RunNow(t.Context(), hour(1.1), d.specs, "report", request); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a second run by hand: %v", err)
	}
	d.end("completed")
	if err := d.SetPaused(t.Context(), hour(5), d.specs, "report", false); err != nil {
		t.Fatal(err)
	}
	if d.at(hour(5.2)) != 0 || d.at(hour(5.6)) != 1 {
		t.Error("after a pause, not exactly the next due time was run")
	}
	d.end("completed")
	d.specs[0].Cron = "15 * * * *" // 18:15 has passed, but not for this calendar
	if d.at(hour(5.9)) != 0 || d.at(hour(6.8)) != 1 {
		t.Error("after a change, not exactly the next due time was run")
	}
	if err := d.SetPaused(t.Context(), now, d.specs, "reprot", true); fault.KindOf(err) != fault.NotFound ||
		!strings.Contains(fault.Hint(err), `"report"`) {
		t.Errorf("an unknown name: %v, %s", err, fault.Hint(err))
	}
}

func TestSchedulesOfAgents(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	path := file(t)
	d := start(t, path, hourly)
	spec := schedule.Spec{Name: "mine", Cron: "0 9 * * *", TimeZone: "UTC", Skill: "report",
		Inputs: json.RawMessage(`{"to":"ada@example.org"}`)}
	made, err := d.Create(t.Context(), now, d.specs, spec)
	if want := clock(t, "UTC", "2026-11-25 09:00"); err != nil || !made.Next.Equal(want) || !d.due.Equal(want) {
		t.Fatalf("created: %+v, due %s: %v", made, d.due, err)
	}
	for _, name := range []string{"mine", "report"} {
		spec.Name = name
		if _, err := d.Create(t.Context(), now, d.specs, spec); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a second schedule %s: %v", name, err)
		}
	}
	if err := d.Delete(t.Context(), now, d.specs, "report"); fault.KindOf(err) != fault.Denied {
		t.Errorf("delete one of the configuration: %v", err)
	}
	other := start(t, path) // has no configuration, as other daemons have
	if n := other.at(made.Next); n != 1 || len(other.list(now)) != 1 {
		t.Errorf("another daemon started %d, and has %+v", n, other.list(now))
	}
	if n := d.at(made.Next); n != 0 {
		t.Errorf("started %d times", n+1)
	}
	if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, []byte("ada@")) {
		t.Errorf("the inputs are not encrypted: %v", err)
	}
	if err := d.Delete(t.Context(), now, d.specs, "mine"); err != nil || len(d.list(now)) != 1 || !d.due.IsZero() {
		t.Errorf("after a deletion: %+v, due %s: %v", d.list(now), d.due, err)
	}
}

func TestConfigurationReplacesScheduleOfAnAgent(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	d := start(t, file(t))
	if _, err := d.Create(t.Context(), now, nil, schedule.Spec{Name: "report", Cron: "0 9 * * *", Skill: "report"}); err != nil {
		t.Fatal(err)
	}
	configured := start(t, d.path, hourly)
	configured.at(now)
	if all := configured.list(now); len(all) != 1 || all[0].Source != schedule.Configuration || len(d.list(now)) != 0 {
		t.Errorf("%+v; without the configuration %+v", all, d.list(now))
	}
}

func TestDamagedScheduleCanBeDeleted(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	d := start(t, file(t), hourly)
	if _, err := d.Create(t.Context(), now, d.specs, schedule.Spec{Name: "mine", Cron: "0 9 * * *", Skill: "report"}); err != nil {
		t.Fatal(err)
	}
	err := d.db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE sealed SET body = zeroblob(60)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if all := d.list(now); len(all) != 2 || all[0].Name != "mine" || all[0].Damaged == nil || all[1].Damaged != nil {
		t.Errorf("%+v", all)
	}
	if err := d.Delete(t.Context(), now, d.specs, "mine"); err != nil || len(d.list(now)) != 1 {
		t.Errorf("%+v, %v", d.list(now), err)
	}
}

// A schedule whose request cannot be made does not prevent others.
func TestBrokenSchedule(t *testing.T) {
	now := clock(t, "UTC", "2026-11-24 12:30")
	bad, good := hourly, hourly
	bad.Name = "bad"
	d := start(t, file(t), bad, good)
	d.at(now)
	why := map[string]string{}
	p, err := d.HandleDue(t.Context(), now.Add(time.Hour), d.specs, func(s schedule.Spec) ([]byte, error) {
		if s.Name == "bad" {
			return nil, errors.New("no such workflow")
		}
		return request(s)
	}, func(s schedule.Spec, err error) { why[s.Name] = err.Error() })
	if err != nil || len(p.Started) != 1 || why["bad"] != "no such workflow" || len(why) != 1 {
		t.Errorf("got %+v, %v, %v", p, why, err)
	}
	if all := d.list(now); all[0].Last == nil || all[0].Last.State != "failed" {
		t.Errorf("the failure is not recorded: %+v", all[0].Last)
	}
}

func TestCheck(t *testing.T) {
	for want, s := range map[string]schedule.Spec{
		"cannot be the name":           {Name: "a b", Every: time.Hour, Skill: "x"},
		"either a skill or a workflow": {Name: "a", Every: time.Hour},
		"on_overlap is \"wait\"":       {Name: "a", Every: time.Hour, Skill: "x", OnOverlap: "wait"},
		"on_missed is \"all\"":         {Name: "a", Every: time.Hour, Skill: "x", OnMissed: "all"},
		"inputs must be an object":     {Name: "a", Every: time.Hour, Skill: "x", Inputs: json.RawMessage(`[1]`)},
		"neither cron nor every":       {Name: "a", Skill: "x"},
	} {
		if _, err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
