// Package sandboxtest is the conformance suite of the sandbox contract. It contains every known
// attack as data. A Case states a promise, the code that attacks it and the layers of isolation
// that stop the attack. Run checks that a backend keeps the promises. RunUnprotected checks that
// the attacks are real: they succeed with those layers disabled.
//
// A successful attack does no harm: it reads canaries, sends signal 0, and stops at 300 processes
// and 300 MB.
//
// The package tests what code can do. A backend has its own tests for failing without protection,
// for its probe and for its speed. Not tested, because not promised (docs/threat-model.md), are
// covert channels between cooperating sandboxes: load, caches, and locks and futexes on shared
// read-only files.
package sandboxtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Setup connects the suite to a backend.
type Setup struct {
	// Open starts a backend with some of its layers disabled, and closes it when the test
	// ends. If this machine does not support that, it skips or fails the test. Required.
	Open func(t testing.TB, off ...string) sandbox.Backend
	// Spec describes a sandbox of owner ("alice", "mallory" or "bystander") with an existing
	// workspace: a mount with target /workspace in a root that may contain more directories.
	// If oneUID is set, all owners have the same host uid. Required.
	Spec func(owner string, oneUID bool) sandbox.Spec
	// Dir returns the host directory of a mount in the root of the workspaces, owned by the
	// host uid of spec. It creates a missing one. Required.
	Dir func(spec sandbox.Spec, name string) string
	// Leftovers describes resources that the backend did not release, other than those that
	// it keeps for the next sandbox, or returns "". It is called until it returns "" or ten
	// seconds have passed. Required.
	Leftovers func(b sandbox.Backend) string
	// CanDisable reports whether a layer can be disabled on this machine; nil means yes.
	CanDisable func(layer string) bool
	// Exceptions are cases that the backend cannot pass, by name, with the reason. They run too: the
	// host must be unchanged afterwards, and the next execution must work.
	Exceptions map[string]string
	// Slowness multiplies the deadlines of steps, for a backend that emulates the processor; 0
	// means 1.
	Slowness int
	// IsWeak reports whether a layer is weaker on this machine, so that it need not stop an
	// attack alone; nil means no.
	IsWeak func(layer string) bool
}

// Layers in addition to those of the process backend.
const (
	// LayerUID is a host uid per owner. Setup.Spec disables it.
	LayerUID = "uid"
)

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(files(), network(), surface(), identity(), processes(), resources(), disk(), interpreter(), frames(), leaks(),
		pairs(), planted())
}

// Run tests that a backend keeps every promise, and after each attack that it serves the next
// execution and has released all resources. Cases that are slow or have a deadline of
// their own run in slow tests only.
func Run(t *testing.T, setup Setup) {
	b := setup.Open(t)
	s := newScene(t, setup)
	s.waitForCleanup(t, b)
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if c.Slow || c.Time > 0 { // most last until their deadline
				longtest.SkipSlow(t)
			}
			reason, excepted := setup.Exceptions[c.Name]
			if excepted {
				c.Time = exceptionTime
			}
			p := s.play(t, b, c, false)
			if excepted {
				t.Logf("not required to pass: %s", reason)
			} else {
				p.check(t, c)
			}
			s.check(t, c)
			s.next(t, b)
			s.waitForCleanup(t, b)
		})
	}
	t.Run("contract", func(t *testing.T) { contract(t, s, b) })
}

// exceptionTime is the deadline of a case that the backend cannot pass: some wait for
// an event that does not happen.
const exceptionTime = 5 * time.Second

// RunUnprotected tests that each attack succeeds with exactly its layers disabled. It skips an
// attack that this machine does not allow to any program.
func RunUnprotected(t *testing.T, setup Setup) {
	for _, c := range Cases() {
		if len(c.Layers) == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if !setup.can(c.Layers) {
				t.Skipf("not all of %v can be disabled on this machine", c.Layers)
			}
			s := newScene(t, setup)
			s.play(t, setup.open(t, c.Layers), c, slices.Contains(c.Layers, LayerUID)).requireSuccess(t, c)
		})
	}
}

// RunSingleLayer tests that each layer of a case stops the attack with the other layers disabled.
func RunSingleLayer(t *testing.T, setup Setup) {
	for _, c := range Cases() {
		for _, l := range c.Layers {
			others := slices.DeleteFunc(slices.Clone(c.Layers), func(o string) bool { return o == l })
			if len(others) == 0 || l == LayerUID || !setup.can(others) || setup.IsWeak != nil && setup.IsWeak(l) {
				continue
			}
			t.Run(c.Name+" by "+l, func(t *testing.T) {
				s := newScene(t, setup)
				// a sandbox that cannot open without them stops the attack as well
				if p := s.play(t, setup.open(t, others), c, slices.Contains(others, LayerUID)); p.Success != "" {
					t.Errorf("with %v disabled the layer %q does not stop the attack: %s", others, l, p.Success)
				}
			})
		}
	}
}

// RunOwnNamespaces tests that namespaces of each sandbox's own stop the attacks that they are for,
// with all other layers of these disabled. setup opens backends that give each sandbox its own.
func RunOwnNamespaces(t *testing.T, setup Setup) {
	for _, c := range Cases() {
		if !c.Own || !setup.can(c.Layers) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			s := newScene(t, setup)
			if p := s.play(t, setup.open(t, c.Layers), c, false); p.Success != "" {
				t.Errorf("with %v disabled, namespaces of its own do not stop the attack: %s", c.Layers, p.Success)
			}
		})
	}
}

func (s Setup) can(layers []string) bool {
	return s.CanDisable == nil || !slices.ContainsFunc(layers, func(l string) bool { return !s.CanDisable(l) })
}

// open starts a backend with some of its layers disabled. It ignores LayerUID, which is not a
// layer of the backend.
func (s Setup) open(t *testing.T, off []string) sandbox.Backend {
	return s.Open(t, slices.DeleteFunc(slices.Clone(off), func(l string) bool { return l == LayerUID })...)
}

// TestCases checks that the cases are complete.
func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
		if c.Promise == "" || len(c.Steps) == 0 {
			t.Errorf("%s: without a promise or steps", c.Name)
		}
		if (len(c.Layers) == 0) == (c.NotShown == "") {
			t.Errorf("%s: needs either Layers or NotShown", c.Name)
		}
	}
	if len(seen) < 120 {
		t.Errorf("%d cases: the suite has shrunk", len(seen))
	}
}

// next runs a harmless program for another owner.
func (s *scene) next(t *testing.T, b sandbox.Backend) {
	t.Helper()
	sb, err := b.Open(t.Context(), s.setup.Spec("bystander", false))
	if err != nil {
		t.Fatalf("open the next sandbox: %v", err)
	}
	defer sb.Close()
	out, err := sb.Run(t.Context(), sandbox.Program{ID: "next",
		Code: "import os\nopen('/tmp/x', 'w').write('x')\n(6*7, os.listdir('/tmp'))"}, &recorder{})
	if err != nil || out.Status != sandbox.Completed || string(out.Result) != `[42,["x"]]` {
		t.Fatalf("the next execution: %v %s %s %s", err, out.Status, out.Result, out.Error)
	}
}

func (s Setup) deadline(ctx context.Context, c Case) (context.Context, context.CancelFunc) {
	d := c.Time
	if d == 0 {
		d = defaultTime
	}
	d *= time.Duration(max(1, s.Slowness))
	return context.WithTimeoutCause(ctx, d, sandbox.ErrTimeout)
}
