package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/build"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// TestMain makes the test program an upstream server, with faults.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "upstream" {
		_ = Upstream(context.Background(), os.Args[3], os.Args[2])
		return
	}
	m.Run()
}

// newRun returns a run with an upstream server that has faults. It skips the test if this machine
// cannot execute code.
func newRun(t *testing.T, faults string) *chaos {
	t.Helper()
	longtest.SkipSlow(t)
	binary, err := build.Program(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Binary: binary, Daemons: 2, Patience: 10 * time.Second,
		Upstream: func(file string) []string { return []string{os.Args[0], "upstream", faults, file} }}
	c := newChaos(cfg, t.TempDir())
	if err := c.rig("ready").Ready(t.Context()); fault.KindOf(err) == fault.Unavailable && os.Getenv("REQUIRE_SANDBOX") == "" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return c
}

// check checks that err, or one of its parts, is a problem of a kind.
func check(t *testing.T, err error, what string) {
	t.Helper()
	var p problem
	if !errors.As(err, &p) || p.what != what {
		t.Errorf("%v, want a problem: %s", err, what)
	}
}

func TestFaultsOfTheUpstreamServerAreFound(t *testing.T) {
	for faults, want := range map[string]string{"twice": "doubled", "forget": "lost", "hang": "stuck"} {
		t.Run(faults, func(t *testing.T) {
			c := newRun(t, faults)
			if faults == "hang" {
				c.cfg.Patience = 2 * time.Second
			}
			r := c.newRound(kinds()["background"], "background", 0, time.Second)
			if err := r.run(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			check(t, errors.Join(r.problems...), want)
		})
	}
}

func TestLostValuesAreFound(t *testing.T) {
	c := newRun(t, "none")
	r := c.newRound(kinds()["store"], "store", 0, time.Second)
	d, err := r.rig.ServeHTTP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := driveStore(t.Context(), r, d); err != nil {
		t.Fatal(err)
	}
	if err := checkStored(t.Context(), r, d.Client); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(r.rig.Data(), "workspaces", "local", "chaos")
	run := func(args ...string) error { _, err := r.rig.Run(t.Context(), args...); return err }
	for name, damage := range map[string]func() error{
		"file":    func() error { return os.Remove(filepath.Join(dir, "file")) },
		"code":    func() error { return os.Truncate(filepath.Join(dir, "code"), 3) },
		"skill":   func() error { return run("skills", "delete", "stored") },
		"session": func() error { r.stored["session"].acknowledged++; r.stored["session"].begun++; return nil }, // a step that is not there
	} {
		if err := damage(); err != nil {
			t.Fatal(name, err)
		}
		check(t, checkStored(t.Context(), r, d.Client), "lost")
		if *r.stored[name] = (stored{lastStored, lastStored}); name != "session" { // repair it
			if err := store(t.Context(), d.Client, name, lastStored); err != nil {
				t.Fatal(name, err)
			}
		}
	}
}

func TestRepeatedQuestionIsFound(t *testing.T) {
	r := &round{rig: rig.New(rig.Config{Dir: t.TempDir()}), user: newUser(0)}
	if err := enter(r.file(), begin+" a"); err != nil {
		t.Fatal(err)
	}
	r.lives, r.decided["a"] = 2, &decision{word: "done", life: 1, begins: 1, acknowledged: true}
	_, err := decide(t.Context(), r, question{Question: `{"id": "a"}`, Call: 1})
	check(t, err, "reported")
}
