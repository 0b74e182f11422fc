package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

func loads(t *testing.T, text string) (*config.Config, string, error) {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + home, "USERPROFILE=" + home, "APPDATA=" + home, "LOCALAPPDATA=" + home}
	c, err := config.Load(config.Sources{Dir: dir, File: "sandpiper.yaml", Environ: environ, Features: []config.Section{Feature().Config}})
	return c, dir, err
}

func TestRunscIsOfTheOperator(t *testing.T) {
	c, dir, err := loads(t, "sandbox: {backend: gvisor, runsc: bin/runsc}")
	if err != nil {
		t.Fatal(err)
	}
	if got := configure(c, sandbox.Config{}).Runsc; got != filepath.Join(dir, "bin/runsc") || c.Sandbox() != Feature().
		Config.Sandbox.Sandbox {
		t.Errorf("%s in the sandbox %s", got, c.Sandbox())
	}
	if _, _, err := loads(t, "tiers: {hard: {sandbox: {runsc: /x}}}"); !strings.Contains(fault.Message(err),
		"sandbox.runsc applies to all tenants") {
		t.Error(err)
	}
}
