package daemon

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
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
		box, err := b.Open(t.Context(), one)
		if opened[layer] = err == nil; err == nil {
			box.Close()
		} else if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("layer %q: %v", layer, err)
		}
	}
	want := map[string]bool{"": true, "default": true, "unused": false, "none": false, "absent": false}
	if diff := cmp.Diff(want, opened); diff != "" || made != 1 {
		t.Errorf("%d backends, %s", made, diff)
	}
}
