package journal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// allowedTransitions are all transitions of runs: what changes, the state before and, of a running run,
// whose it is, and the states after.
const allowedTransitions = `
add     absent            queued running
add     running of self   queued running
claim   queued            running
claim   waiting           running
claim   running of nobody running
reopen  waiting           running
reopen  running of self   running
reopen  running of nobody running
reopen  ended             running
giveUp  running of self   queued running waiting ended
cancel  queued            ended
cancel  waiting           ended
cancel  running of nobody ended
forget  waiting           absent ended
forget  running of nobody absent ended
forget  ended             absent ended
`

// combination is a transition of a run in one state.
type combination struct {
	t    transition
	from State
	of   standing // of a running run
	to   State
}

func (c combination) String() string {
	name := map[State]string{absent: "absent"}
	from := string(c.from) + name[c.from]
	if c.from == Running {
		from += " of " + []string{"nobody", "self", "another process"}[c.of]
	}
	return fmt.Sprintf("%s: %s to %s", c.t, from, string(c.to)+name[c.to])
}

// allowed parses allowedTransitions.
func allowed() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(allowedTransitions)) {
		words := strings.Fields(line)
		from, after := words[1], words[2:]
		if words[2] == "of" {
			from, after = strings.Join(words[1:4], " "), words[4:]
		}
		for _, to := range after {
			all[fmt.Sprintf("%s: %s to %s", words[0], from, to)] = true
		}
	}
	return all
}

// combinations are all that can be tried, allowed or not.
func combinations() (all []combination) {
	states := []State{absent, Queued, Running, Waiting, Ended}
	for t := range transitions {
		for _, from := range states {
			for _, to := range states {
				all = append(all, combination{t, from, ofNobody, to})
				if from == Running {
					all = append(all, combination{t, from, ofSelf, to}, combination{t, from, ofOther, to})
				}
			}
		}
	}
	return all
}

func logIn(t *testing.T, dir string) (*Log, *Process) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "journal", SQL: Tables}})
	if err != nil {
		t.Fatal(err)
	}
	p := NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) { return make([]byte, 32), nil })
	t.Cleanup(func() { p.Close(); db.Close() })
	return New(Config{DB: db, Tenant: tenant.Local, Process: p, Due: func(time.Time) error { return nil }}), p
}

// prepare stores a run in the state of c, with a record, for a log whose process is self.
func prepare(t *testing.T, self, other *Log, id string, c combination) {
	t.Helper()
	if c.from == absent {
		return
	}
	owner := ""
	if c.from == Running && c.of != ofNobody {
		of := map[standing]*Log{ofSelf: self, ofOther: other}[c.of]
		name, err := of.cfg.Process.name()
		if err != nil {
			t.Fatal(err)
		}
		owner = name
	}
	now := time.Now().UnixMilli()
	x, err := self.cipher(id)
	if err != nil {
		t.Fatal(err)
	}
	err = self.cfg.DB.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO runs (execution, state, on_restart, owner, created, changed, due, recorded, "+
			"request) VALUES (?, ?, 'resume', ?, ?, ?, ?, 1, ?)",
			id, string(c.from), owner, now, now, now, x.encrypt(ofRequest, 0, []byte("{}")))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// try makes the transition of c. end, if it is not nil, is called before the commit.
func (c combination) try(ctx context.Context, l *Log, id string, end func()) (moved bool, err error) {
	err = l.cfg.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if c.t == add {
			err = addRun(ctx, l, tx, Run{Execution: id, State: c.to, OnRestart: ResumeOnRestart, Request: []byte("{}")})
			moved = err == nil
		} else {
			moved, err = move(ctx, l.cfg.Process, tx, id, c.t, c.to, "")
		}
		if end != nil {
			end()
		}
		return err
	})
	return moved, err
}

func stateOfRun(t *testing.T, l *Log, id string) (s State, of standing) {
	t.Helper()
	err := l.cfg.DB.View(t.Context(), func(tx *store.Tx) (err error) {
		s, of, err = position(t.Context(), l.cfg.Process, tx, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, of
}

func TestTransitions(t *testing.T) {
	dir := t.TempDir()
	self, _ := logIn(t, dir)
	other, _ := logIn(t, dir)
	want := allowed()
	for i, c := range combinations() {
		if c.t == add && c.to != Queued && c.to != Running { // Add has no other states
			continue
		}
		id := fmt.Sprintf("exec_%d", i)
		prepare(t, self, other, id, c)
		moved, _ := c.try(t.Context(), self, id, nil)
		if moved != want[c.String()] {
			t.Errorf("%s: allowed %t", c, moved)
		}
		delete(want, c.String())
		s, of := stateOfRun(t, self, id)
		after, owner := c.from, c.of
		if moved {
			after, owner = c.to, ofNobody
			if c.to == Running && !transitions[c.t].release {
				owner = ofSelf
			}
		}
		if s != after || s == Running && of != owner {
			t.Errorf("%s: it is %q of %d, want %q of %d", c, s, of, after, owner)
		}
	}
	for name := range want {
		t.Errorf("%s was not tried", name)
	}
}

// killedTransition is the environment variable with the directory, the number of the combination and the
// moment for the process that TestKilledTransitions starts.
const killedTransition = "JOURNAL_TEST_TRANSITION"

// TestTransitionUntilKilled is the process that TestKilledTransitions starts.
func TestTransitionUntilKilled(t *testing.T) {
	var dir, moment string
	var number int
	if _, err := fmt.Sscan(os.Getenv(killedTransition), &dir, &number, &moment); err != nil {
		t.Skip("TestKilledTransitions starts it")
	}
	l, _ := logIn(t, dir)
	die := func() {
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
	c := killable()[number]
	if c.of == ofSelf {
		prepare(t, l, nil, "exec_1", c)
	}
	if moment == "before" {
		die()
	}
	var during func()
	if moment == "during" {
		during = die
	}
	if moved, err := c.try(t.Context(), l, "exec_1", during); !moved || err != nil {
		t.Fatal(moved, err)
	}
	die()
}

// killable are the allowed combinations, in an order.
func killable() []combination {
	want := allowed()
	all := slices.DeleteFunc(combinations(), func(c combination) bool { return !want[c.String()] })
	slices.SortFunc(all, func(a, b combination) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// A process that is killed before, during or after the commit of a transition leaves the state before or
// after it, and another process continues the run from there.
func TestKilledTransitions(t *testing.T) {
	t.Parallel()
	for number, c := range killable() {
		for _, moment := range []string{"before", "during", "after"} {
			t.Run(fmt.Sprint(c, " ", moment), func(t *testing.T) {
				dir := t.TempDir()
				l, _ := logIn(t, dir)
				if c.of != ofSelf {
					prepare(t, l, nil, "exec_1", c)
				}
				child := exec.Command(os.Args[0], "-test.run", "^TestTransitionUntilKilled$")
				child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", killedTransition, dir, number, moment))
				if out, _ := child.CombinedOutput(); child.ProcessState.ExitCode() >= 0 && strings.Contains(string(out), "FAIL") {
					t.Fatalf("%s", out)
				}
				want := c.from
				if moment == "after" {
					want = c.to
				}
				if s, of := stateOfRun(t, l, "exec_1"); s != want || of != ofNobody {
					t.Fatalf("it is %q of %d, want %q of nobody", s, of, want)
				}
				continues(t, l, want)
			})
		}
	}
}

// continues checks that a daemon claims a run that has not ended, once.
func continues(t *testing.T, l *Log, s State) {
	t.Helper()
	open := s == Queued || s == Waiting || s == Running
	r, err := l.Runs().Claim(t.Context())
	if err != nil || (r != nil) != open {
		t.Errorf("claimed %+v, %v", r, err)
	}
	if r, err := l.Runs().Claim(t.Context()); err != nil || r != nil {
		t.Errorf("claimed again: %+v, %v", r, err)
	}
}
