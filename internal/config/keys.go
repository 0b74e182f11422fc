package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/network"
)

// draft is a Config under construction.
type draft struct {
	Config
	dirs  dirs
	env   map[string]string  // and variables of .env
	given map[string]setting // the effective setting of each key

	anyNetwork *network.Rules // of allow_network_access
}

// applyAll applies the settings of l, and returns all errors, including those of l.
func (d *draft) applyAll(l *loader) error {
	errs := l.errs
	for _, s := range l.settings {
		err := d.apply(ofSeed(s))
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

// knownKey reports whether key is a key of Sandpiper.
func knownKey(key string) bool {
	if keys[key] != nil || sections[key] {
		return true
	}
	for i := range key {
		if key[i] == '.' && families[key[:i]] != nil {
			return true
		}
	}
	return false
}

func via(to *approval.Via, s setting) error {
	return oneOf((*string)(to), s, string(approval.ViaBoth), string(approval.ViaClient), string(approval.ViaOperator))
}

// keys contains the parser of each key.
var keys = joined(httpKeys, guardrailKeys, networkKeys, workspaceKeys, quotaKeys, taskKeys, map[string]func(d *draft, s setting) error{
	"profile": func(d *draft, s setting) error {
		return oneOf(&d.Profile, s, "lean", "standard", "full", "passthrough")
	},
	"sandbox.backend": func(d *draft, s setting) error {
		return oneOf(&d.Backend, s, "auto", "process", "gvisor", "microvm")
	},
	"sandbox.runsc":              func(d *draft, s setting) error { return directory(&d.Runsc, d, s) },
	"sandbox.epoll":              func(d *draft, s setting) error { return boolean(&d.Epoll, s) },
	"sandbox.namespaces":         func(d *draft, s setting) error { return oneOf(&d.Namespaces, s, "shared", "own") },
	"sandbox.subordinate_uids":   func(d *draft, s setting) error { return boolean(&d.SubordinateUIDs, s) },
	"sandbox.microvm.kernel":     func(d *draft, s setting) error { return directory(&d.MicroVM.Kernel, d, s) },
	"sandbox.microvm.accel":      func(d *draft, s setting) error { return oneOf(&d.MicroVM.Accel, s, "kvm", "tcg") },
	"sandbox.timeout":            func(d *draft, s setting) error { return duration(&d.Limits.Timeout, s) },
	"sandbox.max_timeout":        func(d *draft, s setting) error { return duration(&d.Limits.MaxTimeout, s) },
	"sandbox.memory_mb":          func(d *draft, s setting) error { return whole(&d.Limits.MemoryMB, s, 1, 1<<20) },
	"sandbox.max_memory_mb":      func(d *draft, s setting) error { return whole(&d.Limits.MaxMemoryMB, s, 1, 1<<20) },
	"sandbox.restricted":         func(d *draft, s setting) error { return boolean(&d.Restricted, s) },
	"sandbox.packages":           layerKeys["packages"],
	"sandbox.requirements":       layerKeys["requirements"],
	"sandbox.wheels":             layerKeys["wheels"],
	"sandbox.preload":            layerKeys["preload"],
	"sandbox.package_layers":     func(d *draft, s setting) error { return d.packageLayers(s) },
	"sandbox.package_layer":      func(d *draft, s setting) error { return text(&d.PackageLayer, s) }, // checkPackageLayer knows the names
	"sandbox.concurrency":        func(d *draft, s setting) error { return whole(&d.Admit.Concurrent, s, 1, 4096) },
	"sandbox.tenant_concurrency": func(d *draft, s setting) error { return whole(&d.Admit.PerOwner, s, 1, 4096) },
	"limits.memory_mb":           func(d *draft, s setting) error { return whole(&d.MemoryMB, s, 1, 1<<20) },
	"sandbox.queue":              func(d *draft, s setting) error { return queue(d, s) },
	"sessions.idle":              func(d *draft, s setting) error { return duration(&d.Sessions.Idle, s) },
	"sessions.per_tenant":        func(d *draft, s setting) error { return whole(&d.Sessions.PerTenant, s, 1, 4096) },
	"sessions.living":            func(d *draft, s setting) error { return whole(&d.Sessions.Live, s, 1, 4096) },
	"background.keep":            func(d *draft, s setting) error { return duration(&d.Background.Keep, s) },
	"background.timeout":         func(d *draft, s setting) error { return duration(&d.Background.Timeout, s) },
	"background.running":         func(d *draft, s setting) error { return whole(&d.Background.Running, s, 1, 4096) },
	"approvals.timeout":          func(d *draft, s setting) error { return duration(&d.Approvals.Timeout, s) },
	"approvals.via":              func(d *draft, s setting) error { return via(&d.Approvals.Via, s) },
	"data_dir":                   func(d *draft, s setting) error { return directory(&d.DataDir, d, s) },
	"workflows":                  func(d *draft, s setting) error { return directory(&d.Workflows, d, s) },
	"cache_dir":                  func(d *draft, s setting) error { return directory(&d.CacheDir, d, s) },
	"http.token":                 func(d *draft, s setting) error { return token(d, s, tenant.Local) },
	"http.api_keys":              func(d *draft, s setting) error { return boolean(&d.HTTP.Keys, s) },
	"http.sse":                   func(d *draft, s setting) error { return boolean(&d.HTTP.Events, s) },
	"log.level":                  func(d *draft, s setting) error { return level(&d.Log.Level, s) },
	"servers":                    func(d *draft, s setting) error { return d.servers(s) },
	"schedules":                  func(d *draft, s setting) error { return d.schedules(s) },
	"recent_code":                func(d *draft, s setting) error { return recentCode(&d.RecentCode, s) },
	"inactive":                   func(d *draft, s setting) error { return days(&d.Inactive, s) },
	"tiers":                      groups,
	"tenants":                    groups,
	"subsets":                    func(d *draft, s setting) error { return d.subsets(s) },
	"catalog":                    func(d *draft, s setting) error { return d.catalogs(s) },
	"search.learn":               func(d *draft, s setting) error { return boolean(&d.Search.Learn, s) },
	"search.embeddings.provider": func(d *draft, s setting) error {
		return embeddingProvider(&d.Search.Embeddings.Provider, s)
	},
	"search.embeddings.url":         func(d *draft, s setting) error { return endpoint(&d.Search.Embeddings.URL, s) },
	"search.embeddings.model":       func(d *draft, s setting) error { return text(&d.Search.Embeddings.Model, s) },
	"search.embeddings.api_key":     func(d *draft, s setting) error { return reference(&d.Search.Embeddings.Key, s) },
	"search.embeddings.api_version": func(d *draft, s setting) error { return text(&d.Search.Embeddings.APIVersion, s) },
	"search.embeddings.dimensions": func(d *draft, s setting) error {
		return whole(&d.Search.Embeddings.Dimensions, s, 1, model.MaxDimensions)
	},
	"search.embeddings.dir":        func(_ *draft, s setting) error { return noONNX(s) },
	"search.embeddings.timeout":    func(d *draft, s setting) error { return duration(&d.Search.Timeout, s) },
	"log.file":                     func(d *draft, s setting) error { return directory(&d.Log.File, d, s) },
	"audit.max_age":                func(d *draft, s setting) error { return days(&d.Audit.Age, s) },
	"audit.max_mb":                 func(d *draft, s setting) error { return auditSize(&d.Audit.Bytes, s) },
	"telemetry.traces.endpoint":    func(d *draft, s setting) error { return collector(&d.Telemetry.Traces.Endpoint, s, true) },
	"telemetry.traces.propagate":   func(d *draft, s setting) error { return boolean(&d.Telemetry.Traces.Propagate, s) },
	"telemetry.metrics.endpoint":   func(d *draft, s setting) error { return collector(&d.Telemetry.Metrics.Endpoint, s, false) },
	"telemetry.metrics.prometheus": func(d *draft, s setting) error { return scraped(d, s) },
	"telemetry.metrics.token":      func(d *draft, s setting) error { return scrapeToken(d, s) },
	"pii.mode": func(d *draft, s setting) error {
		return oneOf(&d.PII.Mode, s, string(redact.Off), string(redact.Egress), string(redact.Strict))
	},
	"pii.restore": func(d *draft, s setting) error { return oneOf(&d.PII.Restore, s, "auto", "allow", "deny") },
	"pii.names": func(d *draft, s setting) error {
		return oneOf((*string)(&d.PII.Scan.Names), s, string(detect.Evidence), string(detect.Always), string(detect.Never))
	},
	"pii.prose_names":      func(d *draft, s setting) error { return boolean(&d.PII.Scan.Prose, s) },
	"pii.addresses":        func(d *draft, s setting) error { return oneOf(&d.PII.Addresses, s, "public", "all") },
	"pii.key":              func(d *draft, s setting) error { return text(&d.PII.Key, s) },
	"pii.flows":            func(d *draft, s setting) error { return fillAll(&d.PII.Flows, flowKeys, s) },
	"pii.exceptions":       func(d *draft, s setting) error { return fillAll(&d.PII.Except, exceptionKeys, s) },
	"pii.patterns":         func(d *draft, s setting) error { return fillAll(&d.PII.Scan.Patterns, patternKeys, s) },
	"pii.tokens":           func(d *draft, s setting) error { return whole(&d.PII.Tokens, s, 1, 10_000_000) },
	"pii.tokens_per_hour":  func(d *draft, s setting) error { return whole(&d.PII.New, s, 1, 10_000_000) },
	"pii.queries_per_hour": func(d *draft, s setting) error { return whole(&d.PII.Asked, s, 1, 10_000_000) },
	"policy.default": func(d *draft, s setting) error {
		return oneOf((*string)(&d.Policy.Default), s, string(policy.Allow), string(policy.Ask), string(policy.Block))
	},
	"policy.rules": func(d *draft, s setting) error {
		return ordered(&d.Policy.Rules, ruleKeys, s, func(r *policy.Rule, at string) { r.At = at })
	},
	"policy.budgets": func(d *draft, s setting) error {
		return ordered(&d.Policy.Budgets, budgetKeys, s, func(b *policy.Budget, at string) { b.At = at })
	},
})

// families are keys that are followed by a name chosen by the user, which may contain dots.
var families = map[string]func(d *draft, s setting, name string) error{
	"http.tokens":               tokenOf,
	"pii.keys":                  hinted,
	"pii.ttl":                   kept,
	"telemetry.traces.headers":  func(d *draft, s setting, name string) error { return header(&d.Telemetry.Traces.Headers, d, s, name) },
	"telemetry.metrics.headers": func(d *draft, s setting, name string) error { return header(&d.Telemetry.Metrics.Headers, d, s, name) },
}

// structured keys have lists or mappings as values.
var structured = map[string]bool{"servers": true, "schedules": true, "tiers": true, "tenants": true, "subsets": true, "catalog": true, "mcp_servers": true, "tasks.prices": true, "sandbox.packages": true, "sandbox.preload": true, "sandbox.package_layers": true, "http.tls.client_scopes": true, "http.tls.acme.hosts": true,
	"network.allow": true, "sandbox.allow_network_access": true, "execution.allow_network_access": true,
	"pii.flows": true, "pii.exceptions": true, "pii.patterns": true, "policy.rules": true, "policy.budgets": true,
	"guardrails.blocked_patterns": true, "guardrails.blocked_paths": true, "guardrails.allowed_networks": true, "guardrails.hooks": true}

// sections are keys that contain other keys.
var sections = map[string]bool{"sandbox": true, "sandbox.microvm": true, "network": true, "workspace": true, "limits": true, "quotas": true, "approvals": true, "audit": true, "sessions": true, "background": true, "log": true, "http": true, "http.tokens": true, "http.oidc": true, "http.tls": true, "http.tls.acme": true, "search": true, embeddings: true, "tasks": true,
	"pii": true, "pii.keys": true, "pii.ttl": true, "policy": true, "guardrails": true,
	"telemetry": true, "telemetry.traces": true, "telemetry.metrics": true, "telemetry.traces.headers": true, "telemetry.metrics.headers": true}

// apply applies one setting, replacing an earlier one of the same key.
func (d *draft) apply(s setting) error {
	if err := refused(s); err != nil {
		return err
	}
	if s.key == embeddings && s.kind == "" && s.text != "" {
		s.key += ".provider" // search: {embeddings: azure}
	}
	parse, ok := keys[s.key]
	for family, parseNamed := range families {
		if name, in := strings.CutPrefix(s.key, family+"."); in {
			ok, parse = true, func(d *draft, s setting) error { return parseNamed(d, s, name) }
		}
	}
	if !ok {
		return unknown(s)
	}
	if structured[s.key] && s.node == nil {
		if s.text == "" {
			return nil // an empty section
		}
		return fault.New(fault.Invalid, "%s: %s can only be set in a configuration file", s.from, s.key)
	}
	if s.kind != "" {
		return fault.New(fault.Invalid, "%s: %s is a %s; it must be a single value", s.from, s.key, s.kind)
	}
	d.given[s.key] = s
	return parse(d, s)
}

// unknown returns the error of an unknown key.
func unknown(s setting) error {
	if sections[s.key] {
		if s.kind == "mapping" || s.kind == "" && s.text == "" {
			return nil // an empty section
		}
		if families[s.key] != nil {
			return fault.New(fault.Invalid, "%s: %s must map names to values, such as NAME: VALUE", s.from, s.key)
		}
		return fault.New(fault.Invalid, "%s: %s must contain keys such as %s", s.from, s.key, strings.Join(within(s.key), ", "))
	}
	if section, _, nested := strings.Cut(s.key, "."); nested && s.top != "" && !knownKey(section) && len(within(section)) == 0 {
		s.key, s.from = section, s.top
	}
	return fault.New(fault.Invalid, "%s: there is no key %q%s", s.from, s.key, suggestion(s.key, keys))
}

func within(section string) []string {
	var list []string
	for k := range keys {
		if rest, ok := strings.CutPrefix(k, section+"."); ok {
			list = append(list, rest)
		}
	}
	slices.Sort(list)
	return list
}

// finish applies defaults and checks keys that depend on each other.
func (d *draft) finish() (*Config, error) {
	d.useAnyNetwork()
	if err := d.checkPackageLayer(); err != nil {
		return nil, err
	}
	if err := d.completeOIDC(); err != nil {
		return nil, err
	}
	if err := d.completeTLS(); err != nil {
		return nil, err
	}
	c := &d.Config
	c.Profile = cmp.Or(c.Profile, "standard")
	c.Backend = cmp.Or(c.Backend, "auto")
	if b := d.given["sandbox.backend"]; b.seed != "" {
		c.MicroVM.SeedSetting = b.from + ": " + b.seed
	}
	c.Namespaces = cmp.Or(c.Namespaces, "shared")
	if err := c.PII.check(); err != nil {
		return nil, err
	}
	if err := d.consistent(); err != nil {
		return nil, err
	}
	if err := d.atMost("sandbox.timeout", "sandbox.max_timeout", c.Limits.Timeout > 0 && c.Limits.Timeout > c.Limits.WithDefaults().MaxTimeout); err != nil {
		return nil, err
	}
	if err := d.atMost("sandbox.memory_mb", "sandbox.max_memory_mb", c.Limits.MemoryMB > c.Limits.WithDefaults().MaxMemoryMB); err != nil {
		return nil, err
	}
	if err := d.enoughMemory(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.WithDefaults()
	if c.Admit.PerOwner == 0 && (c.HTTP.manyTenants() || len(c.HTTP.Tokens) > 1) {
		c.Admit.PerOwner = c.Admit.SharedPerOwner()
	}
	c.DataDir = cmp.Or(c.DataDir, d.dirs.data)
	c.CacheDir = cmp.Or(c.CacheDir, d.dirs.cache)
	if c.Workflows == "" && d.dirs.config != "" {
		c.Workflows = filepath.Join(d.dirs.config, "workflows")
	}
	if c.DataDir == "" || c.CacheDir == "" {
		return nil, fault.New(fault.Invalid, "no data directory: neither HOME nor data_dir and cache_dir are set").
			WithHint("set data_dir and cache_dir, or HOME")
	}
	return c, nil
}

// enoughMemory rejects limits that are too low for Python to start.
func (d *draft) enoughMemory() error {
	least := d.Limits.WithDefaults().MinMemoryMB
	for key, v := range map[string]int{"sandbox.memory_mb": d.Limits.MemoryMB, "sandbox.max_memory_mb": d.Limits.MaxMemoryMB} {
		if v != 0 && v < least {
			return wrong(d.given[key], "at least %d, which Python needs to start", least)
		}
	}
	return nil
}

// atMost rejects a configured default above its maximum. A default that is above only
// because the maximum was lowered follows the maximum.
func (d *draft) atMost(key, highest string, above bool) error {
	if !above {
		return nil
	}
	return wrong(d.given[key], "at most %s", highest)
}

// nearest returns the known key that is most similar to key.
func nearest(key string) string { return nearestOf(key, keys) }

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
	_, name := cutKey(key)
	_, leaf := cutKey(best)
	if similar(name, leaf) || similar(key, best) {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	top := map[string]bool{}
	for k := range keys {
		section, _, _ := strings.Cut(k, ".")
		top[section] = true
	}
	section, _, _ := strings.Cut(key, ".")
	if best := nearestOf(section, top); best != section && similar(section, best) {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
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
