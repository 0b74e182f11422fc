package daemon

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// Reloaded is what a Reload has changed.
type Reloaded struct {
	Added, Removed, Changed []string // servers, sorted
	// Restart are the sections of the configuration that differ from those that the daemon was
	// started with, and apply after a restart.
	Restart []string
}

// Reload applies the servers and static catalogs of another configuration, while calls continue:
// see upstream.Set.Update. Executions that begin afterwards see the new modules, and live
// sessions with their next call. An error means that nothing has changed.
func (d *Daemon) Reload(ctx context.Context, c *config.Config) (Reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	next, err := newServerSet(c)
	if err != nil {
		return Reloaded{}, err
	}
	r, err := d.Servers.replace(ctx, c, next)
	if err != nil {
		return r, err
	}
	r.Restart = d.needRestart(c)
	if err := d.recordReload(c, r); err != nil { // does not undo the change
		d.log.Warn("configuration changes were not recorded", "error", err)
	}
	if err := d.Tenants.Reopen(); err != nil {
		d.log.Warn("close home", "error", err)
	}
	d.logReload(c, r)
	return r, nil
}

// replace changes the servers, the catalog and the modules together.
func (v *servers) replace(ctx context.Context, c *config.Config, next serverSet) (r Reloaded, err error) {
	v.writing.Lock()
	defer v.writing.Unlock()
	last := v.now
	r.compare(last, next)
	v.lookup.Store(&c.Lookup)
	if reflect.DeepEqual(last, next) {
		return r, nil
	}
	if err := v.Set.Update(next.upstream); err != nil {
		return Reloaded{}, err
	}
	v.now = next
	v.Catalog.Update(next.configured, next.static)
	v.mu.Lock()
	for _, name := range slices.Concat(r.Removed, r.Changed) {
		delete(v.listing, name) // a request to the old server
	}
	v.mu.Unlock()
	v.modules.replace(c.Servers)
	v.modules.write(context.WithoutCancel(ctx), v.Catalog.Now)
	v.listUnlisted()
	return r, nil
}

// compare sets the names of the servers that differ.
func (r *Reloaded) compare(last, next serverSet) {
	type both struct{ upstream, configured any }
	byName := func(s serverSet) map[string]both {
		all := map[string]both{}
		for i, c := range s.configured {
			all[c.Name] = both{s.upstream[i], c}
		}
		return all
	}
	before, after := byName(last), byName(next)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[name]; !ok {
			r.Added = append(r.Added, name)
		} else if !reflect.DeepEqual(old, after[name]) {
			r.Changed = append(r.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			r.Removed = append(r.Removed, name)
		}
	}
}

// needRestart returns the sections that Reload does not apply. A project's section also has its
// servers, which are applied.
func (d *Daemon) needRestart(c *config.Config) []string {
	return slices.DeleteFunc(changedNames(d.cfg.Sections, c.Sections), func(name string) bool { return name == "servers" || name == "catalog" })
}

// recordReload writes the changes to the audit log.
func (d *Daemon) recordReload(c *config.Config, r Reloaded) error {
	for _, all := range []struct {
		outcome string
		names   []string
	}{{"added", r.Added}, {"removed", r.Removed}, {"changed", r.Changed}} {
		for _, name := range all.names {
			d.data.audit.AppendLater(audit.Line{Kind: audit.Configuration, Server: name, Outcome: all.outcome, Section: "servers"})
		}
	}
	return changes{d.data.dataDir, c.Sections, d.lockFiles(), d.data.audit}.record()
}

func (d *Daemon) logReload(c *config.Config, r Reloaded) {
	d.log.Info("the configuration was reloaded", "added", r.Added, "removed", r.Removed, "changed", r.Changed)
	for _, w := range r.Warnings(c) {
		d.log.Warn(w)
	}
	for _, f := range d.Policy.Findings(policy.Inventory{Servers: d.configuredNames()}) {
		d.log.Warn(f.String())
	}
}

// Warnings returns what the person should know about a reload to c.
func (r Reloaded) Warnings(c *config.Config) []string {
	all := slices.Clone(c.Warnings)
	if len(r.Restart) == 0 {
		return all
	}
	names := slices.Clone(r.Restart)
	if i := slices.Index(names, "project"); i >= 0 {
		names[i] = "project (except its servers)"
	}
	return append(all, "these settings have changed and apply after a restart: "+strings.Join(names, ", "))
}

// reload reads the configuration again and applies it. A configuration with errors is logged, and
// has no effect.
func (d *Daemon) reload(ctx context.Context) (r Reloaded, warnings []string, err error) {
	if d.cfg.Load == nil {
		return r, nil, fault.New(fault.Unavailable, "this process cannot reload its configuration")
	}
	c, err := d.cfg.Load()
	if err == nil {
		r, err = d.Reload(ctx, c)
	}
	if err != nil {
		d.log.Error("the configuration was not reloaded; the previous one stays in effect", "error", err)
		return r, nil, err
	}
	return r, r.Warnings(c), nil
}
