//go:build linux && (amd64 || arm64)

package python_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// limitDescriptors limits the descriptors of this process to those that are open and n more, until
// the function that it returns is called.
func limitDescriptors(t *testing.T, n int) (release func()) {
	t.Helper()
	var was syscall.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err := errors.Join(err, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(len(open) - 1 + n), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}
}

// With any number of descriptors, an undamaged install is either used or not, but never replaced, and
// the error states the shortage.
func TestShortageOfDescriptorsReplacesNothing(t *testing.T) {
	for name, edit := range map[string]func(dir string) error{
		"unchanged": func(string) error { return nil },
		"to be hashed": func(dir string) error {
			return os.Chtimes(filepath.Join(dir, "bin/python3.14"), time.Time{}, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "unchanged" {
				longtest.SkipSlow(t)
			}
			cfg := python.Config{Dir: t.TempDir()}
			first := install(t, cfg)
			before, err := os.Stat(first.Dir())
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for n := range 16 {
				if err := edit(first.Dir()); err != nil {
					t.Fatal(err)
				}
				release := limitDescriptors(t, n)
				in, err := python.Install(t.Context(), cfg)
				if err == nil {
					_, err = in.SystemLibraries()
					_ = in.Close()
				}
				intact := first.Intact(true)
				release()
				if err != nil {
					refused++
					wantFault(t, err, fault.Unavailable, "too many open files")
				}
				if !intact {
					t.Errorf("with %d descriptors the installation is damaged", n)
				}
			}
			if after, err := os.Stat(first.Dir()); err != nil || !os.SameFile(before, after) {
				t.Errorf("the installation was replaced, %v", err)
			}
			if refused == 0 || refused == 16 {
				t.Errorf("refused %d times", refused)
			}
		})
	}
}

// A process without descriptors cannot look at files, which is no damage of theirs.
func TestIntactWithoutDescriptors(t *testing.T) {
	in := install(t, python.Config{Dir: t.TempDir()})
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	intact := in.Intact(true)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if !intact {
		t.Error("the installation is damaged")
	}
}
