package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestSandboxesOfAnUnknownPackageLayerAreRefused(t *testing.T) {
	made := 0
	cfg := Config{Backend: func(context.Context) (sandbox.Backend, error) { made++; return fake.New(fake.Config{}), nil }}
	cfg.PackageLayers = map[string]config.PackageLayer{"unused": {}}
	b := newLayeredBackend(cfg, nil, slog.New(slog.DiscardHandler))
	defer b.Close()
	opened := map[string]bool{}
	for _, layer := range []string{"", "default", "unused", "none", "absent"} {
		one := spec
		one.PackageLayer = layer
		sb, err := b.Open(t.Context(), one)
		if opened[layer] = err == nil; err == nil {
			sb.Close()
		} else if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("layer %q: %v", layer, err)
		}
	}
	want := map[string]bool{"": true, "default": true, "unused": false, "none": false, "absent": false}
	if diff := cmp.Diff(want, opened); diff != "" || made != 1 {
		t.Errorf("%d backends, %s", made, diff)
	}
}

// Each kind of sandbox and package layer is opened by a backend of its own, also in a combination that
// only a tenant with a stored tier has; a kind that nothing selects is refused.
func TestSandboxesOfUnusedKindsAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sandpiper.yaml")
	if err := os.WriteFile(file, []byte(`
sandbox: {package_layers: {science: {packages: [pandas]}}}
tiers: {hard: {sandbox: {backend: gvisor}}, soft: {sandbox: {package_layer: science}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	kind := config.Section{Sandbox: config.Sandbox{Sandbox: policy.Sandbox{Name: "gvisor", Strength: 2}}}
	c, err := config.Load(config.Sources{Dir: dir, File: file, Environ: []string{"HOME=" + dir}, Features: []config.Section{kind}})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	cfg := Config{Config: *c, Backend: func(context.Context) (sandbox.Backend, error) { made++; return fake.New(fake.Config{}), nil }}
	b := newLayeredBackend(cfg, nil, slog.New(slog.DiscardHandler))
	defer b.Close()
	for _, tc := range []struct {
		kind, layer string
		made        int // backends in all; 0 if it is refused
	}{
		{"process", "default", 1}, {"", "", 1}, {"gvisor", "default", 2}, {"process", "science", 3}, {"gvisor", "science", 4}, {"gvisor",
			"", 4},
		{"microvm", "default", 0}, {"gvisor", "absent", 0}, {"none", "default", 0},
	} {
		one := spec
		one.Backend, one.PackageLayer = tc.kind, tc.layer
		sb, err := b.Open(t.Context(), one)
		if err == nil {
			sb.Close()
		}
		if tc.made == 0 && fault.KindOf(err) != fault.Unavailable || tc.made > 0 && (err != nil || made != tc.made) {
			t.Errorf("%+v: %d backends, %v", tc, made, err)
		}
	}
}
