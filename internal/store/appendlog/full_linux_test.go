package appendlog_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

const diskOfChild = "APPENDLOG_TEST_DISK"

// A frame that a full disk cut is not read, and the next one replaces it.
func TestFullDisk(t *testing.T) {
	if disk := os.Getenv(diskOfChild); disk != "" {
		if err := onFullDisk(disk); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestFullDisk$")
	c.Env = append(os.Environ(), diskOfChild+"="+t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if errors.Is(err, unix.EPERM) || strings.Contains(string(out), errNoMount.Error()) {
		t.Skip("mounting is not allowed here")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

var errNoMount = errors.New("mounting is not allowed here")

func onFullDisk(disk string) error {
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("disk", disk, "tmpfs", 0, "size=256k")); err != nil {
		return errors.Join(errNoMount, err)
	}
	path := filepath.Join(disk, "log")
	l, err := appendlog.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(l.Append([]byte("one")), l.Sync()); err != nil {
		return err
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("filling the disk: %w", err)
	}
	for _, n := range []int{70_000, 200_000} { // more than the chunk
		if err := l.Append(make([]byte, n)); !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("appending to a full disk: %w", err)
		}
	}
	if all, err := read(path, 0); err != nil || fmt.Sprint(all) != "[1:one]" {
		return fmt.Errorf("read %q, %w", all, err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := errors.Join(l.Append([]byte("two")), l.Sync()); err != nil {
		return err
	}
	if all, err := read(path, 0); err != nil || fmt.Sprint(all) != "[1:one 2:two]" {
		return fmt.Errorf("read %q, %w", all, err)
	}
	return nil
}
