package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// sandboxKeys are the keys of sandboxes.
var sandboxKeys = map[string]key{
	"sandbox.backend": {
		read: func(d *draft, s setting) error {
			names := []string{"auto", policy.Process.Name}
			for _, one := range d.Features.sandboxes() {
				names = append(names, one.Name)
			}
			return oneOf(&d.Backend, s, names...)
		},
		project: func(c, p *Config, s setting) bool { // sandbox_type of a former system sets it too
			to := c.Features.sandbox(p.Backend)
			weak := to.Weak != nil && to.Weak(c) && c.Sandbox() != policy.Process
			if p.Sandbox() != c.Sandbox() && (weak || !p.Sandbox().Satisfies(c.Sandbox())) {
				return false
			}
			if c.Backend = p.Backend; s.seed != "" {
				c.FormerSetting = s.from + ": " + s.seed
			}
			return true
		},
		tenant: true,
	},
	"sandbox.packages":       layerKeys["packages"],
	"sandbox.requirements":   layerKeys["requirements"],
	"sandbox.wheels":         layerKeys["wheels"],
	"sandbox.preload":        layerKeys["preload"],
	"sandbox.package_layers": {read: readPackageLayers, structured: true},
	"sandbox.queue": {
		read: func(d *draft, s setting) error { return queue(d, s) },
		project: func(c, p *Config, _ setting) bool {
			c.Admit.Queued = c.Admit.WithDefaults().Queued
			if p.Admit.Queued > max(c.Admit.Queued, 0) {
				return false
			}
			c.Admit.Queued = p.Admit.Queued
			return true
		},
		fixed: func(c *Config) any { return &c.Admit.Queued },
	},
}

// Sandbox returns the kind of sandbox in which code runs, unless policy requires a stronger one.
func (c *Config) Sandbox() policy.Sandbox {
	if c.Backend == "auto" || c.Backend == "" {
		return policy.Process
	}
	return SandboxNamed(c, c.Backend)
}

// SandboxNamed returns the kind of sandbox with a name. One that the program does not have satisfies no other.
func SandboxNamed(c *Config, name string) policy.Sandbox {
	if name == policy.Process.Name {
		return policy.Process
	}
	return cmp.Or(c.Features.sandbox(name).Sandbox, policy.Sandbox{Name: name})
}

// Environment is a kind of sandbox with a package layer.
type Environment struct {
	Sandbox policy.Sandbox
	Layer   string // of packages
}

// Environment returns what code runs in, unless policy requires a stronger sandbox.
func (c *Config) Environment() Environment {
	return Environment{c.Sandbox(), cmp.Or(c.PackageLayer, DefaultPackageLayer)}
}

// EnvironmentsInUse returns the sorted environments of the daemon, of all tiers and of the tenants
// with settings of their own, and those that rules of the policy may require instead.
func (c *Config) EnvironmentsInUse() []Environment {
	used := map[Environment]bool{}
	c.each(func(_ string, one *Config) {
		e := one.Environment()
		used[e] = true
		for _, r := range RequiredSandboxes(c) {
			if !e.Sandbox.Satisfies(r.Sandbox) {
				used[Environment{r.Sandbox, e.Layer}] = true
			}
		}
	})
	return slices.SortedFunc(maps.Keys(used), func(a, b Environment) int {
		return cmp.Or(strings.Compare(a.Layer, b.Layer), strings.Compare(a.Sandbox.Name, b.Sandbox.Name))
	})
}

// SandboxesInUse returns the kinds of sandboxes in use, each with the first setting that selects it,
// such as tiers.pro.
func (c *Config) SandboxesInUse() map[policy.Sandbox]string {
	used := map[policy.Sandbox]string{}
	c.each(func(key string, one *Config) { used[one.Sandbox()] = cmp.Or(used[one.Sandbox()], key) })
	for _, r := range RequiredSandboxes(c) {
		used[r.Sandbox] = cmp.Or(used[r.Sandbox], r.Rule+" of the policy")
	}
	return used
}

// each calls f with the configuration of the daemon, of each tier, and of each tenant with settings of
// its own, and with their keys.
func (c *Config) each(f func(key string, one *Config)) {
	f("sandbox.backend", c)
	if c.Tenants == nil {
		return
	}
	for _, one := range c.Tenants.tiers {
		f("tiers."+one.name, one.config)
	}
	for id := range c.Tenants.own {
		f("tenants."+id.String(), c.Tenants.combine(id, ""))
	}
}

// RequiredSandboxes returns the sandboxes that rules of the policy require, with the numbers and names of the rules.
func RequiredSandboxes(c *Config) (all []policy.Requirement) {
	add := func(prefix string, rules []policy.Rule) {
		for i, r := range rules {
			if s := c.Features.sandbox(r.Sandbox).Sandbox; s != (policy.Sandbox{}) {
				number := fmt.Sprintf("%srule %d", prefix, i+1)
				if r.Name != "" {
					number += " (" + r.Name + ")"
				}
				all = append(all, policy.Requirement{Sandbox: s, Rule: number})
			}
		}
	}
	add("", c.Policy.Rules)
	if p := c.Policy.Project; p != nil {
		add("project ", p.Rules)
	}
	return all
}
