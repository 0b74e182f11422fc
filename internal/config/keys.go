package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
)

// applyAll applies the settings of l, and returns all errors, including those of l.
func (d *draft) applyAll(l *loader) error {
	errs := l.errs
	for _, s := range l.settings {
		err := d.apply(ofSeed(s, d.Features.sandboxes()))
		if n := len(errs); err == nil || n > 0 && fault.Message(err) == fault.Message(errs[n-1]) { // of the same unknown section
			continue
		}
		errs = append(errs, err)
	}
	return joinErrors(errs)
}

// joinErrors joins errors into one fault with all messages.
func joinErrors(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	kind, message, hint := fault.KindOf(errs[0]), "", ""
	for _, err := range errs {
		if message != "" && !strings.HasSuffix(message, "?") {
			message += "."
		}
		message = strings.TrimSpace(message + " " + fault.Message(err))
		hint = cmp.Or(hint, fault.Hint(err))
		if fault.KindOf(err) == fault.Invalid {
			kind = fault.Invalid
		}
	}
	e := fault.Wrap(kind, errors.Join(errs...), "%s", message)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

func via(to *approval.Via, s setting) error {
	return oneOf((*string)(to), s, string(approval.ViaBoth), string(approval.ViaClient), string(approval.ViaOperator))
}

// coreKeys are the keys of the core.
var coreKeys = joined(taggedKeys, generalKeys, sandboxKeys, telemetryKeys, piiKeys, httpKeys, guardrailKeys, quotaKeys)

// generalKeys are the keys of small sections, and those without one.
var generalKeys = map[string]key{
	"profile": {
		read: func(d *draft, s setting) error {
			return oneOf(&d.Profile, s, d.Features.profiles()...)
		},
		tenant: true,
	},
	"limits.memory_mb": {
		read:    func(d *draft, s setting) error { return whole(&d.MemoryMB, s, 1, 1<<20) },
		project: func(c, p *Config, _ setting) bool { return atMost(&c.MemoryMB, memory.PerOwner>>20, p.MemoryMB) },
		tenant:  true,
	},
	"background.running": {
		read: func(d *draft, s setting) error { return whole(&d.Background.Running, s, 1, 4096) },
		project: func(c, p *Config, _ setting) bool {
			return atMost(&c.Background.Running, max(1, c.Admit.WithDefaults().Concurrent/2), p.Background.Running)
		},
	},
	"log.level": {
		read: func(d *draft, s setting) error { return level(&d.Log.Level, s) },
		project: func(c, p *Config, _ setting) bool {
			c.Log.Level = cmp.Or(c.Log.Level, p.Log.Level)
			return true
		},
	},
	"servers": {read: readServers, structured: true, project: done},
	"approvals.via": {
		read: func(d *draft, s setting) error { return via(&d.Approvals.Via, s) },
		project: func(c, p *Config, _ setting) bool {
			if now := cmp.Or(c.Approvals.Via, approval.ViaBoth); now != approval.ViaBoth && p.Approvals.Via != now {
				return false
			}
			c.Approvals.Via = p.Approvals.Via
			return true
		},
		tenant: true,
	},
	"recent_code": {
		read:  func(d *draft, s setting) error { return recentCode(&d.RecentCode, s) },
		fixed: func(c *Config) any { return &c.RecentCode },
	},
	"tiers":    {read: groups, structured: true},
	"tenants":  {read: groups, structured: true},
	"subsets":  {read: readSubsets, structured: true},
	"catalog":  {read: readCatalogs, structured: true, project: done},
	"log.file": {read: func(d *draft, s setting) error { return directory(&d.Log.File, d, s) }, project: done},
}

// families are all families, by their section.
var families = map[string]family{
	"http.tokens": {read: tokenOf},
	"pii.keys":    {read: hinted, project: func(string) merge { return done }},
	"pii.ttl": {read: kept, project: func(name string) merge {
		return func(c, p *Config, _ setting) bool { return c.PII.keptAtMost(name, &p.PII) }
	}},
	"telemetry.traces.headers": {read: func(d *draft, s setting, name string) error {
		return header(&d.Telemetry.Traces.Headers, d, s, name)
	}},
	"telemetry.metrics.headers": {read: func(d *draft, s setting, name string) error {
		return header(&d.Telemetry.Metrics.Headers, d, s, name)
	}},
}

// familyOf returns the family of a key, and its name there.
func familyOf(key string) (of family, name string, ok bool) {
	for section, of := range families {
		if name, in := strings.CutPrefix(key, section+"."); in {
			return of, name, true
		}
	}
	return family{}, "", false
}

// apply applies one setting, replacing an earlier one of the same key.
func (d *draft) apply(s setting) error {
	if err := refused(s, d.Features.sandboxes()); err != nil {
		return err
	}
	t := tableOf(&d.Config)
	if key, ok := t.short[s.key]; ok && s.kind == "" && s.text != "" {
		s.key = key
	}
	k, ok := t.keys[s.key]
	if of, name, named := familyOf(s.key); named {
		ok, k.read = true, func(d *draft, s setting) error { return of.read(d, s, name) }
	}
	if !ok {
		return t.unknown(s)
	}
	if k.structured && s.node == nil {
		if s.text == "" {
			return nil // an empty section
		}
		return fault.New(fault.Invalid, "%s: %s can only be set in a configuration file", s.from, s.key)
	}
	if s.kind != "" {
		return fault.New(fault.Invalid, "%s: %s is a %s; it must be a single value", s.from, s.key, s.kind)
	}
	d.given[s.key] = s
	return k.read(d, s)
}

// finish applies defaults and checks keys that depend on each other.
func (d *draft) finish() (*Config, error) {
	if err := d.checkPackageLayer(); err != nil {
		return nil, err
	}
	if err := d.HTTP.OIDC.complete(d.given); err != nil {
		return nil, err
	}
	if err := d.HTTP.checkTLS(d.given); err != nil {
		return nil, err
	}
	c := &d.Config
	c.Profile = cmp.Or(c.Profile, "standard")
	c.Backend = cmp.Or(c.Backend, "auto")
	if b := d.given["sandbox.backend"]; b.seed != "" {
		c.FormerSetting = b.from + ": " + b.seed
	}
	c.Namespaces = cmp.Or(c.Namespaces, "shared")
	if err := c.PII.check(); err != nil {
		return nil, err
	}
	if err := d.consistent(); err != nil {
		return nil, err
	}
	if err := d.given.atMost("sandbox.timeout", "sandbox.max_timeout", c.Limits.Timeout > 0 && c.Limits.Timeout > c.Limits.WithDefaults().
		MaxTimeout); err != nil {
		return nil, err
	}
	if err := d.given.atMost("sandbox.memory_mb", "sandbox.max_memory_mb", c.Limits.MemoryMB > c.Limits.WithDefaults().
		MaxMemoryMB); err != nil {
		return nil, err
	}
	if err := d.given.enoughMemory(c.Limits); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.WithDefaults()
	if c.Admit.PerOwner == 0 && (c.HTTP.manyTenants() || len(c.HTTP.Tokens) > 1) {
		c.Admit.PerOwner = c.Admit.SharedPerOwner()
	}
	c.DataDir = cmp.Or(c.DataDir, d.dirs.data)
	c.CacheDir = cmp.Or(c.CacheDir, d.dirs.cache)
	c.UserDir = d.dirs.config
	if c.DataDir == "" || c.CacheDir == "" {
		return nil, fault.New(fault.Invalid, "no data directory: neither HOME nor data_dir and cache_dir are set").
			WithHint("set data_dir and cache_dir, or HOME")
	}
	return c, nil
}

// enoughMemory rejects limits that are too low for Python to start.
func (g givenKeys) enoughMemory(l execution.Limits) error {
	least := l.WithDefaults().MinMemoryMB
	for key, v := range map[string]int{"sandbox.memory_mb": l.MemoryMB, "sandbox.max_memory_mb": l.MaxMemoryMB} {
		if v != 0 && v < least {
			return wrong(g[key], "at least %d, which Python needs to start", least)
		}
	}
	return nil
}

// atMost rejects a configured default above its maximum. A default that is above only
// because the maximum was lowered follows the maximum.
func (g givenKeys) atMost(key, highest string, above bool) error {
	if !above {
		return nil
	}
	return wrong(g[key], "at most %s", highest)
}

func nearestOf[V any](key string, keys map[string]V) string {
	best, least, whole := "", 1<<30, 0
	for k := range keys {
		d := fault.EditDistance(key, k)
		n := 2 * d
		in, leaf := cutKey(k)
		here, name := cutKey(key)
		if m := 2*fault.EditDistance(name, leaf) + 2; m < n {
			n = m // right name, wrong section
		}
		if in != here && (here != "" || in != "sandbox") {
			n++ // prefer the same section, and sandbox to others: its flags have no section
		}
		if n < least || n == least && (d < whole || d == whole && k < best) {
			best, least, whole = k, n, d
		}
	}
	return best
}

// suggestion returns the end of the message about an unknown key: the most similar key or
// section, or "" if none is similar.
func suggestion[V any](key string, keys map[string]V) string {
	best := nearestOf(key, keys)
	top := map[string]bool{}
	for k := range keys {
		section, _, _ := strings.Cut(k, ".")
		top[section] = true
	}
	section, _, nested := strings.Cut(key, ".")
	near := nearestOf(section, top)
	_, name := cutKey(key)
	_, leaf := cutKey(best)
	switch {
	case similar(key, best) || !nested && similar(name, leaf):
	case near != section && similar(section, near):
		best = near
	case !similar(name, leaf):
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// similar reports whether one of the names may be a misspelling of the other.
func similar(a, b string) bool {
	d := fault.EditDistance(a, b)
	return d < min(len(a), len(b)) && 2*d <= max(len(a), len(b))+1
}

// cutKey splits a key into section and name.
func cutKey(key string) (section, name string) {
	i := strings.LastIndexByte(key, '.')
	return key[:max(i, 0)], key[i+1:]
}
