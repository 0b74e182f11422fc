package host_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/build"
	"github.com/sandpiper-mcp/sandpiper/bench/host"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// newTestRig returns a rig of the built program. It skips the test without a sandbox.
func newTestRig(t *testing.T) *rig.Rig {
	t.Helper()
	binary, err := build.Program(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := rig.New(rig.Config{Binary: binary, Dir: t.TempDir()})
	err = r.Ready(t.Context())
	if fault.KindOf(err) == fault.Unavailable && os.Getenv("REQUIRE_SANDBOX") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDaemon builds the program once for its subtests.
func TestDaemon(t *testing.T) {
	longtest.Skip(t)
	r := newTestRig(t)
	t.Run("answers over stdio and HTTP", func(t *testing.T) { testAnswers(t, r) })
	t.Run("does not wait for an ended call", func(t *testing.T) { testEndedCall(t, r) })
}

func testAnswers(t *testing.T, r *rig.Rig) {
	for name, serve := range map[string]func(context.Context, ...string) (*rig.Daemon, error){"stdio": r.Serve, "HTTP": r.ServeHTTP} {
		t.Run(name, func(t *testing.T) {
			d, err := serve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			other, err := d.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []*rig.Client{d.Client, other} {
				if x, err := c.Execute(t.Context(), "print('printed')\nn * 2", rig.Args{"context_vars": rig.Args{"n": 21}}); err != nil ||
					string(x.Result) != "42" || x.Output[0] != "printed" {
					t.Errorf("Execute returned %+v, %v", x, err)
				}
			}
			if a, err := d.Call(t.Context(), "load_skill", rig.Args{"name": "missing"}); err != nil || !a.Failed {
				t.Errorf("load_skill of a missing skill: %+v, %v", a, err)
			}
			if _, err := d.Call(t.Context(), "no_such_tool", rig.Args{}); err == nil || !strings.HasPrefix(err.Error(), "error -3") {
				t.Errorf("call of an unknown tool: %v", err)
			}
			seen := countParts(t, d)
			watch := host.NewWatch(rig.Tree(d.PID()))
			d.Kill()
			if _, err := d.Execute(t.Context(), "1", nil); !errors.Is(err, rig.ErrGone) {
				t.Errorf("a call after the daemon was killed: %v", err)
			}
			if runtime.GOOS != "linux" {
				return
			}
			if seen["daemon"] != 1 || seen["keeper"] != 1 || seen["zygote"] != 1 || seen["worker"] == 0 {
				t.Errorf("the daemon's processes: %v", seen)
			}
			if left := watch.WaitExited(t.Context(), time.Minute); len(left) > 0 {
				t.Errorf("processes %v outlived the daemon", left)
			}
		})
	}
	if names := host.DaemonNames(r); runtime.GOOS == "linux" && len(names) == 0 {
		t.Error("killed daemons left no lock files")
	}
}

// countParts counts d's processes by role, once there is a worker: after a call there
// is none until the next one has been forked.
func countParts(t *testing.T, d *rig.Daemon) map[rig.Part]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		seen := map[rig.Part]int{}
		for _, p := range rig.Tree(d.PID()) {
			seen[p.Part]++
		}
		if seen["worker"] > 0 || runtime.GOOS != "linux" {
			return seen
		}
		select {
		case <-ctx.Done():
			return seen
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func testEndedCall(t *testing.T, r *rig.Rig) {
	d, err := r.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	cancel(left)
	if _, err := d.Execute(ctx, "while True: pass", rig.Args{"timeout_seconds": 1}); !errors.Is(err, left) {
		t.Errorf("got %v", err)
	}
}
