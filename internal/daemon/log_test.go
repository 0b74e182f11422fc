package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
)

func TestLogDirectoryIsCreated(t *testing.T) {
	dir := t.TempDir()
	for _, log := range []config.Log{{File: filepath.Join(dir, "a", "b", "x.log")}, {File: filepath.Join(dir, "c", "x.log"), Root: dir},
		{File: filepath.Join(dir, "x.log"), Root: dir}} {
		f, err := openLogFile(log)
		if err != nil {
			t.Errorf("%+v: %v", log, err)
			continue
		}
		f.Close()
		if _, err := os.Stat(log.File); err != nil {
			t.Error(err)
		}
	}
}

func TestProjectLogStaysInItsDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "logs")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(filepath.Join(outside, "y.log"), filepath.Join(dir, "y.log")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"logs/x.log", "logs/new/x.log", "y.log"} {
		if f, err := openLogFile(config.Log{File: filepath.Join(dir, name), Root: dir}); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
		t.Errorf("outside is %v, %v", found, err)
	}
}

// Commands in the log are complete, like those in other messages.
func TestCommandsInLogAreComplete(t *testing.T) {
	var out strings.Builder
	l, err := openLog(config.Log{}, &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.with.Config = "/a b.yaml"
	l.Warn("stale: run `sandpiper packages lock`", "hint", "run `sandpiper doctor`", "error", errors.New("see `sandpiper servers list`"))
	for _, want := range []string{"packages lock", "doctor", "servers list"} {
		if want = "`sandpiper " + want + " --config '/a b.yaml'`"; !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}
