//go:build linux && (amd64 || arm64)

package python_test

import (
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

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
