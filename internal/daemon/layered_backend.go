package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// layeredBackend opens each sandbox with a package layer. Every layer has a backend of its
// own, and so another root directory, zygote and workers: no file and no preloaded module of
// a layer exists in the processes of another.
//
// The embedded backend is that of the daemon's own layer.
type layeredBackend struct {
	*lazyBackend
	layers map[string]*lazyBackend // by name; the embedded one also has the name ""
}

// newLayeredBackend returns a backend with the layers of all tenants. None is started.
func newLayeredBackend(cfg Config, roots map[string]string, log *slog.Logger) layeredBackend {
	b := layeredBackend{layers: map[string]*lazyBackend{}}
	for _, name := range cfg.PackageLayersInUse() {
		m := backendMaker{cfg: cfg, roots: roots, log: log}
		layer := cfg.Layer(name)
		if m.cfg.Packages, m.cfg.Preload = layer.Config, layer.Preload; len(cfg.PackageLayers) > 0 {
			m.log = log.With("package_layer", name)
		}
		b.layers[name] = newLazyBackend(m.make)
	}
	b.lazyBackend = b.layers[cmp.Or(cfg.PackageLayer, config.DefaultPackageLayer)]
	b.layers[""] = b.lazyBackend
	return b
}

// startAll starts all layers in the background, the daemon's own first.
func (b layeredBackend) startAll() {
	for _, name := range slices.Sorted(maps.Keys(b.layers)) {
		_, _ = b.layers[name].start()
	}
}

// Open implements sandbox.Backend.
func (b layeredBackend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	l := b.layers[spec.PackageLayer]
	if l == nil { // a sandbox with other packages would be worse than none
		return nil, fault.New(fault.Unavailable, "the package layer %.40q is not available", spec.PackageLayer)
	}
	spec.PackageLayer = ""
	return l.Open(ctx, spec)
}

// Close implements sandbox.Backend.
func (b layeredBackend) Close() error {
	var errs []error
	for _, l := range b.layers {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// packageNames returns a function that returns the names of the packages of a tenant, as
// installed now.
func (d *Daemon) packageNames() func(tenant.ID) []string {
	names := map[string][]string{}
	for _, layer := range d.cfg.PackageLayersInUse() {
		names[layer] = packages.Names(d.cfg.Layer(layer).Config)
	}
	return func(id tenant.ID) []string {
		return names[cmp.Or(d.data.settings(id).PackageLayer, config.DefaultPackageLayer)]
	}
}
