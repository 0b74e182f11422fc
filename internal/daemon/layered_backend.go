package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

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
	maker backendMaker

	mu     sync.Mutex
	layers map[string]*lazyBackend // by name; the embedded one also has the name ""
	closed bool
}

// newLayeredBackend returns a backend with the layers of all tenants. None is started.
func newLayeredBackend(cfg Config, roots map[string]string, log *slog.Logger) *layeredBackend {
	b := &layeredBackend{maker: backendMaker{cfg: cfg, roots: roots, log: log}, layers: map[string]*lazyBackend{}}
	b.add(&cfg.Config)
	b.lazyBackend = b.layers[cmp.Or(cfg.PackageLayer, config.DefaultPackageLayer)]
	b.layers[""] = b.lazyBackend
	return b
}

// add adds the layers that a configuration uses and b does not have. None is started.
func (b *layeredBackend) add(c *config.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range c.PackageLayersInUse() {
		if b.layers[name] != nil || b.closed {
			continue
		}
		m, layer := b.maker, c.Layer(name)
		if m.cfg.Packages, m.cfg.Preload = layer.Config, layer.Preload; len(c.PackageLayers) > 0 {
			m.log = m.log.With("package_layer", name)
		}
		b.layers[name] = newLazyBackend(m.make)
	}
}

// startAll starts all layers in the background, the daemon's own first.
func (b *layeredBackend) startAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.layers)) {
		_, _ = b.layers[name].start()
	}
}

// Open implements sandbox.Backend.
func (b *layeredBackend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b.mu.Lock()
	l := b.layers[spec.PackageLayer]
	b.mu.Unlock()
	if l == nil { // a sandbox with other packages would be worse than none
		return nil, fault.New(fault.Unavailable, "the package layer %.40q is not available", spec.PackageLayer)
	}
	spec.PackageLayer = ""
	return l.Open(ctx, spec)
}

// Close implements sandbox.Backend.
func (b *layeredBackend) Close() error {
	b.mu.Lock()
	b.closed = true
	all := maps.Clone(b.layers)
	b.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// packageNames returns a function that returns the names of the packages of a tenant, as
// installed now.
func (d *Daemon) packageNames() func(tenant.ID) []string {
	var names sync.Map // by layer
	return func(id tenant.ID) []string {
		c := d.data.settings(id)
		layer := cmp.Or(c.PackageLayer, config.DefaultPackageLayer)
		known, ok := names.Load(layer)
		if !ok {
			known, _ = names.LoadOrStore(layer, packages.Names(c.Layer(layer).Config))
		}
		return known.([]string)
	}
}
