//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A configuration that cannot be read is not a missing one: the default policy may be less strict.
func TestUnreadableConfigurationIsAnError(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sandpiper", "sandpiper.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("policy: {default: block}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(src config.Sources) {
		t.Helper()
		if _, err := config.Load(src); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%v", err)
		}
	}
	global := config.Sources{Dir: t.TempDir(), Environ: []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir}}
	if _, err := config.Load(global); err != nil {
		t.Fatal(err)
	}
	project := config.Sources{Dir: filepath.Dir(file), Environ: []string{"HOME=" + t.TempDir()}}

	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, globalErr := config.Load(global)
	_, projectErr := config.Load(project)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{globalErr, projectErr} {
		if fault.KindOf(err) == fault.NotFound || !strings.Contains(fault.Message(err), "too many open files") {
			t.Errorf("without descriptors: %v", err)
		}
	}
	if os.Geteuid() == 0 {
		return // no permission keeps root out
	}
	if err := os.Chmod(filepath.Dir(file), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Dir(file), 0o700)
	check(global)
	global.File = file
	check(global)
}
