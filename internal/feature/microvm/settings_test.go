package microvm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// loads loads a configuration of a program that has a weaker kind of sandbox, named second, too.
func loads(t *testing.T, text string) (*config.Config, string, error) {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	second := config.Section{Sandbox: config.Sandbox{Sandbox: policy.Sandbox{Name: "second", Strength: 2}}}
	c, err := config.Load(config.Sources{
		Dir: dir, File: "sandpiper.yaml", Features: []config.Section{Feature().Config, second},
		Environ: []string{"HOME=" + home, "USERPROFILE=" + home, "APPDATA=" + home, "LOCALAPPDATA=" + home},
	})
	return c, dir, err
}

func TestSettings(t *testing.T) {
	c, dir, err := loads(t, "sandbox: {backend: microvm, max_memory_mb: 3000, microvm: {kernel: boot/vmlinuz, accel: tcg}}")
	if err != nil {
		t.Fatal(err)
	}
	got := configure(c, sandbox.Config{})
	if got.Kernel != filepath.Join(dir, "boot/vmlinuz") || got.Accel != TCG || got.MaxMemory != 3000<<20 || c.Sandbox() != kind {
		t.Errorf("%+v in the sandbox %s", got, c.Sandbox())
	}
	if !Feature().Config.Sandbox.Weak(c) {
		t.Error("an emulated processor isolates")
	}
}

func TestEmulatedProcessorIsNoIsolation(t *testing.T) {
	const tcg = "sandbox: {microvm: {accel: tcg}}\n"
	for text, want := range map[string]string{
		"sandbox: {backend: microvm, microvm: {accel: xen}}":                                                   `sandbox.microvm.accel is "xen"; it must be kvm or tcg`,
		tcg + "tiers: {vm: {sandbox: {backend: microvm}}}\npolicy: {rules: [{server: bank, sandbox: second}]}": "rule 1 of the policy requires the sandbox second, for which microvm (tiers.vm) would suffice, but sandbox.microvm.accel is tcg",
		tcg + "policy: {rules: [{server: bank, sandbox: second}, {server: vault, sandbox: microvm}]}":          "which is not an isolation boundary",
	} {
		if _, _, err := loads(t, text); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
	for text, warns := range map[string]bool{
		tcg + "policy: {rules: [{server: bank, sandbox: second}]}":  false, // no virtual machine is used
		tcg + "policy: {rules: [{server: bank, sandbox: microvm}]}": true,
		tcg + "tenants: {bob: {sandbox: {backend: microvm}}}":       true,
	} {
		c, _, err := loads(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.Join(c.Warnings, "\n"), "NOT AN ISOLATION BOUNDARY") != warns {
			t.Errorf("%s: %q", text, c.Warnings)
		}
	}
}
