package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// ownPython gives h an installation that a test may delete.
func (h *host) ownPython() *python.Installation {
	h.t.Helper()
	dir := filepath.Join(h.roots, "cache")
	in, err := python.Install(h.t.Context(), python.Config{Dir: dir, Overlay: worker.Python()})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { in.Close() })
	h.cfg.Python, h.cfg.Intact = in.Dir(), in.Intact
	return in
}

func TestRunReturnsErrDamagedForDeletedFiles(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	in := h.ownPython()
	b := h.backend(nil)
	live, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if out, err := live.Run(t.Context(), sandbox.Program{Code: "import nothing_of_that_name"}, sandbox.NoHost{}); err != nil ||
		out.Status != sandbox.Raised {
		t.Errorf("with all files there: %+v %v", out, err)
	}
	b.integrity.mu.Lock()
	b.integrity.checked = b.integrity.checked.Add(-checkInterval)
	b.integrity.mu.Unlock()
	if err := os.RemoveAll(filepath.Join(in.Dir(), "lib/python3.14/wave.py")); err != nil {
		t.Fatal(err)
	}
	if !in.Intact(false) || in.Intact(true) {
		t.Errorf("without one file: Intact(false) = %t, Intact(true) = %t", in.Intact(false), in.Intact(true))
	}
	out, err := live.Run(t.Context(), sandbox.Program{Code: "import wave"}, sandbox.NoHost{})
	if !errors.Is(err, sandbox.ErrDamaged) || fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
		t.Errorf("an import of a deleted module: %+v %v", out, err)
	}
	if _, err := b.Open(t.Context(), h.spec("b")); !errors.Is(err, sandbox.ErrDamaged) {
		t.Errorf("Open after it: %v", err)
	}
}

func TestOpenReturnsErrDamagedForDeletedInterpreter(t *testing.T) {
	longtest.SkipSlow(t)
	h := newHost(t)
	h.ownPython()
	b := h.backend(nil)
	if err := os.RemoveAll(filepath.Join(h.roots, "cache")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Open(t.Context(), h.spec("a")); !errors.Is(err, sandbox.ErrDamaged) {
		t.Errorf("Open: %v", err)
	}
}
