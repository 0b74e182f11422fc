package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// Tenants are the tiers and the tenants with settings of their own. It is safe for
// concurrent use.
type Tenants struct {
	raw     Config  // of the daemon, without the settings of a project
	tiers   []*tier // in the order of the file
	own     map[tenant.ID]*block
	project func(*Config) error // applies a project's settings to those of a tenant

	mu       sync.Mutex
	combined map[combination]*Config
}

// tier is a named group of tenants with the same settings.
type tier struct {
	block
	name    string
	members []glob.Pattern
	config  *Config
}

// block contains the settings of a tier or a tenant.
type block struct {
	tier     string // of a tenant
	at       string
	settings []setting
	// credentials of a tenant by server and variable: references to secrets
	credentials map[string]map[string]string
	servers     []string // patterns; nil means no limit
	tools       []string
}

type combination struct {
	tier string
	own  tenant.ID
}

// DefaultTier is the tier of tenants without another one, if it is configured.
const DefaultTier = "default"

// Tier returns the tier of a tenant, "" if it has none. assigned is the tier that
// `tenant tier` stored, which the configuration of the tenant overrides.
func (t *Tenants) Tier(id tenant.ID, assigned string) string {
	if own := t.own[id]; own != nil && own.tier != "" {
		return own.tier
	}
	if t.find(assigned) != nil {
		return assigned
	}
	for _, one := range t.tiers {
		if glob.MatchAny(one.members, id.String()) {
			return one.name
		}
	}
	if t.find(DefaultTier) != nil {
		return DefaultTier
	}
	return ""
}

// Tiers returns the names of the tiers, in the order of the file.
func (t *Tenants) Tiers() []string {
	names := []string{}
	for _, one := range t.tiers {
		names = append(names, one.name)
	}
	return names
}

// Has reports whether a tenant has settings of its own.
func (t *Tenants) Has(id tenant.ID) bool { return t != nil && t.own[id] != nil }

// Named returns the ids of the tenants with settings of their own.
func (t *Tenants) Named() (ids []string) {
	if t != nil {
		for id := range t.own {
			ids = append(ids, id.String())
		}
	}
	return ids
}

// WithCredentials returns a tenant that has credentials of its own for a server.
func (t *Tenants) WithCredentials(server string) (id tenant.ID, ok bool) {
	if t == nil {
		return id, false
	}
	for one, own := range t.own {
		if own.credentials[server] != nil && (!ok || one.String() < id.String()) {
			id, ok = one, true
		}
	}
	return id, ok
}

func (t *Tenants) find(name string) *tier {
	for _, one := range t.tiers {
		if one.name == name {
			return one
		}
	}
	return nil
}

// For returns the configuration for a tenant, whose stored tier is given: the settings of its
// tier and its own replace those of the daemon.
func (c *Config) For(id tenant.ID, assigned string) *Config {
	if c.Tenants != nil {
		if own := c.Tenants.combine(id, assigned); own != nil {
			return own
		}
	}
	return c
}

// combine returns the configuration in which the settings of a tenant's tier and its own
// replace those of the daemon; nil if there are none.
func (t *Tenants) combine(id tenant.ID, assigned string) *Config {
	of, own := t.find(t.Tier(id, assigned)), t.own[id]
	switch {
	case of == nil && own == nil:
		return nil
	case own == nil:
		return of.config
	}
	key, blocks := combination{own: id}, []*block{own}
	if of != nil {
		key.tier, blocks = of.name, []*block{&of.block, own}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.combined[key] == nil {
		c, err := t.apply(blocks...)
		if err != nil { // Load has applied each of these blocks
			panic(err)
		}
		t.combined[key] = c
	}
	return t.combined[key]
}

// check rejects settings of blocks that conflict, such as a default above its maximum. At run
// time, a tenant's block may be combined with another tier, and the maximum applies.
func (t *Tenants) check(blocks ...*block) error {
	d, err := t.merge(blocks...)
	if err != nil {
		return err
	}
	if err := d.checkPackageLayer(); err != nil {
		return err
	}
	return d.given.checkLimits(d.Limits)
}

// apply returns the configuration for a tenant with the settings of some blocks, of which
// later ones replace earlier ones.
func (t *Tenants) apply(blocks ...*block) (*Config, error) {
	d, err := t.merge(blocks...)
	if err != nil {
		return nil, err
	}
	d.Limits = d.Limits.WithDefaults()
	if err := d.checkPackageLayer(); err != nil {
		return nil, err
	}
	return &d.Config, t.project(&d.Config)
}

func (t *Tenants) merge(blocks ...*block) (*draft, error) {
	d := &draft{Config: t.raw, given: map[string]setting{}}
	d.Features = t.raw.Features.clone()
	d.PII.Scan.Patterns, d.PII.Scan.Keys, d.PII.TTL = slices.Clip(d.PII.Scan.Patterns), maps.Clone(d.PII.Scan.Keys), maps.Clone(d.PII.TTL)
	var servers, tools []string
	for _, b := range blocks {
		if b.servers != nil {
			servers = b.servers
		}
		if b.tools != nil {
			tools = b.tools
		}
		if b.credentials != nil {
			d.Credentials = b.credentials
		}
		for _, s := range b.settings {
			if err := d.apply(s); err != nil {
				return nil, err
			}
		}
	}
	if err := d.PII.check(); err != nil {
		return nil, fault.New(fault.KindOf(err), "%s: %s", blocks[len(blocks)-1].at, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	var err error
	if d.Allow, err = catalog.NewAllow(servers, tools); err != nil {
		return nil, err
	}
	d.Features.ofTenant(&d.Config)
	return d, nil
}

// checkLimits rejects limits of a tenant that are out of range.
func (g givenKeys) checkLimits(l execution.Limits) error {
	if err := g.atMost("sandbox.timeout", "sandbox.max_timeout", g["sandbox.timeout"].from != "" && l.Timeout > l.MaxTimeout); err != nil {
		return err
	}
	if err := g.atMost("sandbox.memory_mb", "sandbox.max_memory_mb",
		g["sandbox.memory_mb"].from != "" && l.MemoryMB > l.MaxMemoryMB); err != nil {
		return err
	}
	return g.enoughMemory(l)
}

// groups checks the form of tiers and tenants. They are read when all other keys are.
func groups(_ *draft, s setting) error {
	if len(section.Members(s.node)) == 0 && s.node.Type() != ast.MappingType {
		return fault.New(fault.Invalid, "%s: %s must contain settings by name", s.from, s.key)
	}
	return nil
}

// parsers parse the keys of an entry into a T.
type parsers[T any] map[string]func(to *T, n ast.Node) error

// fill reads a mapping. An unknown key is an error that names the nearest known key.
func (p parsers[T]) fill(to *T, n ast.Node) error {
	if len(section.Members(n)) == 0 {
		return fmt.Errorf("must contain keys such as %s", strings.Join(slices.Sorted(maps.Keys(p)), ", "))
	}
	for _, m := range section.Members(n) {
		key := m.Key.GetToken().Value
		parse, ok := p[key]
		if !ok {
			return fmt.Errorf("has no key %q; did you mean %q?", key, nearestOf(key, p))
		}
		if err := parse(to, m.Value); err != nil {
			return fmt.Errorf("%s %w", key, err)
		}
	}
	return nil
}

// subsetKeys are the keys of a subset.
var subsetKeys = parsers[block]{
	"servers": func(b *block, n ast.Node) error { return patterns(&b.servers, n) },
	"tools":   func(b *block, n ast.Node) error { return patterns(&b.tools, n) },
}

// readSubsets reads the named subsets of the servers: a list of servers, or a mapping with servers
// and tools.
func readSubsets(d *draft, s setting) error {
	if err := groups(d, s); err != nil {
		return err
	}
	d.Subsets = map[string]*catalog.Allow{}
	for _, m := range section.Members(s.node) {
		name, at := m.Key.GetToken().Value, lineOf(s, m.Key)
		if !isName(name) {
			return fault.New(fault.Invalid, "%s: %.40q is not a valid name for a subset: use at most 64 of a-z, 0-9, _ and -", at, name)
		}
		var b block
		err := subsetKeys.fill(&b, m.Value)
		if len(section.Members(m.Value)) == 0 {
			err = patterns(&b.servers, m.Value)
		}
		if err == nil {
			d.Subsets[name], err = catalog.NewAllow(b.servers, b.tools)
		}
		if err != nil {
			return fault.New(fault.Invalid, "%s %s", place(at, "subsets."+name), fault.Message(err))
		}
	}
	return nil
}
