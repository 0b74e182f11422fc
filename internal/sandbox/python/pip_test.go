//go:build linux && (amd64 || arm64)

package python_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

func TestPipIsUnpackedOnce(t *testing.T) {
	longtest.SkipSlow(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	unpacked := func() []string {
		dirs, err := filepath.Glob(filepath.Join(temp, "sandpiper-pip-*"))
		must(t, err)
		return dirs
	}
	old := filepath.Join(temp, "sandpiper-pip-1") // of a process that was killed
	must(t, os.Mkdir(old, 0o700))
	then := time.Now().Add(-25 * time.Hour)
	must(t, os.Chtimes(old, then, then))

	python.InstallWhole()
	defer python.InstallPart()
	i, err := python.Install(t.Context(), python.Config{Dir: filepath.Join(temp, "python")})
	must(t, err)
	for range 2 {
		must(t, i.RunPip(t.Context(), temp, []string{"--version"}, nil, nil))
		if got := unpacked(); len(got) != 1 || got[0] == old {
			t.Errorf("there are %v", got)
		}
	}
	if !i.Intact(true) {
		t.Error("pip changed the installation")
	}
	must(t, i.Close())
	if got := unpacked(); len(got) != 0 {
		t.Errorf("after Close there are %v", got)
	}
}
