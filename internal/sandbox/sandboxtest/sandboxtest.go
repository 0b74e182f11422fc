// Package sandboxtest is the conformance suite of the sandbox contract: every
// attack and every planted trap that anybody thought of, as data. Each Case
// states a promise, the code that attacks it and the layers of isolation that
// stop it. Run shows that a backend keeps the promises; Unprotected shows that
// the attacks are real, by letting them succeed with those layers switched off.
//
// An attack that succeeds does no harm: it reads canaries, signals with 0,
// stops at 300 processes and 300 MB.
//
// The package tests what code can do. That a backend fails when it cannot
// protect, what its probe says and how fast it is are tests of its own. Left
// out because they are not promised (docs/threat-model.md): what two
// cooperating sandboxes signal to each other by load, caches, and locks and
// futexes on shared read-only files.
package sandboxtest

import (
	"context"
	"slices"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Setup says how to make what is tested.
type Setup struct {
	// Open starts a backend with some of its layers switched off, and closes it
	// when the test ends. Where this machine cannot have such a backend it ends
	// the test as skipped or failed. Required.
	Open func(t testing.TB, off ...string) sandbox.Backend
	// Spec describes a sandbox of owner, "alice", "mallory" or "bystander", over
	// a workspace that exists: a mount with target /workspace in a root that
	// may hold more directories. If oneUID is set all owners get the same host
	// uid. Required.
	Spec func(owner string, oneUID bool) sandbox.Spec
	// Dir returns the host directory of a mount in the root of the workspaces,
	// made if it is missing, owned by the host uid of spec. Required.
	Dir func(spec sandbox.Spec, name string) string
	// Leftovers describes what the backend has left behind beside what it keeps for
	// the next sandbox, or is empty. It is asked again until it is empty or ten
	// seconds have passed. Required.
	Leftovers func(b sandbox.Backend) string
	// CanDisable reports whether a layer can be switched off here; nil means each can.
	CanDisable func(layer string) bool
	// IsWeak reports whether a layer is weaker here than elsewhere, so that it
	// need not stop an attack alone; nil means none is.
	IsWeak func(layer string) bool
}

// Layer names beside those of the process backend.
const (
	// LayerUID is a host uid per owner. It is switched off by Setup.Spec.
	LayerUID = "uid"
)

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(files(), network(), surface(), identity(), processes(), resources(), disk(), interpreter(), frames(), leaks(), pairs(), planted())
}

// Run tests that a backend keeps every promise, and after each attack that it
// lives, serves the next execution and has left nothing behind.
func Run(t *testing.T, setup Setup) {
	b := setup.Open(t)
	s := newScene(t, setup)
	s.settle(t, b)
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			p := s.play(t, b, c, false)
			p.judge(t, c)
			s.check(t, c)
			s.next(t, b)
			s.settle(t, b)
		})
	}
	t.Run("contract", func(t *testing.T) { contract(t, s, b) })
}

// RunUnprotected tests that each attack succeeds once exactly the layers that it
// names are off. It skips an attack that this machine would not allow to any
// program.
func RunUnprotected(t *testing.T, setup Setup) {
	for _, c := range Cases() {
		if len(c.Layers) == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if !setup.can(c.Layers) {
				t.Skipf("not all of %v can be switched off here", c.Layers)
			}
			s := newScene(t, setup)
			s.play(t, setup.open(t, c.Layers), c, slices.Contains(c.Layers, LayerUID)).mustWin(t, c)
		})
	}
}

// RunSingleLayer tests that each layer that a case names stops the attack by itself, with
// the others off.
func RunSingleLayer(t *testing.T, setup Setup) {
	for _, c := range Cases() {
		for _, l := range c.Layers {
			others := slices.DeleteFunc(slices.Clone(c.Layers), func(o string) bool { return o == l })
			if len(others) == 0 || l == LayerUID || !setup.can(others) || setup.IsWeak != nil && setup.IsWeak(l) {
				continue
			}
			t.Run(c.Name+" by "+l, func(t *testing.T) {
				s := newScene(t, setup)
				// that the sandbox cannot even open without them stops it as well
				if p := s.play(t, setup.open(t, others), c, slices.Contains(others, LayerUID)); p.Success != "" {
					t.Errorf("with %v off the layer %q does not stop it: %s", others, l, p.Success)
				}
			})
		}
	}
}

func (s Setup) can(layers []string) bool {
	return s.CanDisable == nil || !slices.ContainsFunc(layers, func(l string) bool { return !s.CanDisable(l) })
}

// open starts a backend without layers of its own; LayerUID is none of them.
func (s Setup) open(t *testing.T, off []string) sandbox.Backend {
	return s.Open(t, slices.DeleteFunc(slices.Clone(off), func(l string) bool { return l == LayerUID })...)
}

// TestCases holds the cases against the rules for cases.
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
		if (len(c.Layers) == 0) == (c.Unshown == "") {
			t.Errorf("%s: needs either layers or why it is not shown without them", c.Name)
		}
	}
	if len(seen) < 120 {
		t.Errorf("%d cases: the suite has shrunk", len(seen))
	}
}

// next runs something harmless for somebody else.
func (s *scene) next(t *testing.T, b sandbox.Backend) {
	t.Helper()
	box, err := b.Open(t.Context(), s.setup.Spec("bystander", false))
	if err != nil {
		t.Fatalf("the next sandbox does not open: %v", err)
	}
	defer box.Close()
	out, err := box.Run(t.Context(), sandbox.Program{ID: "next", Code: "import os\nopen('/tmp/x', 'w').write('x')\n(6*7, os.listdir('/tmp'))"}, &ear{})
	if err != nil || out.Status != sandbox.Completed || string(out.Result) != `[42,["x"]]` {
		t.Fatalf("the next execution: %v %s %s %s", err, out.Status, out.Result, out.Error)
	}
}

func deadline(ctx context.Context, c Case) (context.Context, context.CancelFunc) {
	d := c.Time
	if d == 0 {
		d = patience
	}
	return context.WithTimeoutCause(ctx, d, sandbox.ErrTimeout)
}
