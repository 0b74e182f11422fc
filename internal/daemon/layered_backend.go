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

// layeredBackend opens each sandbox with a kind of isolation and a package layer. Every such
// environment has a backend of its own, and so another root directory, zygote and workers: no file
// and no preloaded module of a layer exists in the processes of another.
type layeredBackend struct {
	maker backendMaker
	own   *lazyBackend // of the daemon's own environment

	mu     sync.Mutex
	config *config.Config // that add was last called with
	all    map[config.Environment]*lazyBackend
	closed bool
}

// newLayeredBackend returns a backend with the environments of all tenants. None is started.
func newLayeredBackend(cfg Config, roots map[string]string, log *slog.Logger) *layeredBackend {
	b := &layeredBackend{maker: backendMaker{cfg: cfg, roots: roots, log: log}, all: map[config.Environment]*lazyBackend{}}
	b.add(&cfg.Config)
	b.own = b.all[cfg.Environment()]
	return b
}

// add adds the environments that a configuration uses and b does not have. None is started.
func (b *layeredBackend) add(c *config.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = c
	for _, e := range c.EnvironmentsInUse() {
		b.makeLocked(e)
	}
}

// makeLocked returns the backend of an environment, which it adds if necessary; nil if b is closed.
func (b *layeredBackend) makeLocked(e config.Environment) *lazyBackend {
	if b.all[e] != nil || b.closed {
		return b.all[e]
	}
	m, layer := b.maker, b.config.Layer(e.Layer)
	m.sandbox = e.Sandbox
	m.cfg.Packages, m.cfg.Preload = layer.Config, layer.Preload
	if len(b.config.PackageLayers) > 0 {
		m.log = m.log.With("package_layer", e.Layer)
	}
	if len(b.config.SandboxesInUse()) > 1 {
		m.log = m.log.With("sandbox", e.Sandbox.Name)
	}
	b.all[e] = newLazyBackend(m.make)
	return b.all[e]
}

// startAll starts all environments in the background, the daemon's own first.
func (b *layeredBackend) startAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.own.start()
	for _, l := range b.all {
		_, _ = l.start()
	}
}

// find returns the backend of an environment. The settings of a tenant and of its tier may form one
// that no other tenant has, of a sandbox and a layer that are in use.
func (b *layeredBackend) find(e config.Environment) (*lazyBackend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.all[e]
	if l == nil && b.config.SandboxesInUse()[e.Sandbox] != "" && slices.Contains(b.config.PackageLayersInUse(), e.Layer) {
		l = b.makeLocked(e)
	}
	if l == nil { // weaker isolation, or other packages, would be worse than none
		return nil, fault.New(fault.Unavailable, "the sandbox %.40q with the package layer %.40q is not available", e.Sandbox.Name, e.Layer)
	}
	return l, nil
}

// Open implements sandbox.Backend.
func (b *layeredBackend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	own := b.maker.cfg.Environment()
	kind := config.SandboxNamed(&b.maker.cfg.Config, cmp.Or(spec.Backend, own.Sandbox.Name))
	l, err := b.find(config.Environment{Sandbox: kind, Layer: cmp.Or(spec.PackageLayer, own.Layer)})
	if err != nil {
		return nil, err
	}
	spec.Backend, spec.PackageLayer = kind.Name, ""
	return l.Open(ctx, spec)
}

// Close implements sandbox.Backend.
func (b *layeredBackend) Close() error {
	b.mu.Lock()
	b.closed = true
	all := maps.Clone(b.all)
	b.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// packageNames returns a function that returns the names of the packages of a tenant, as
// installed now.
func (d sandboxes) packageNames() func(tenant.ID) []string {
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
