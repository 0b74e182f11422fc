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
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Reloaded lists the changes of a Reload.
type Reloaded struct {
	Added, Removed, Changed []string // servers, sorted
	Applied                 []string // keys of other settings that have changed and are in force, sorted
	// Restart are the settings that differ from those that the daemon was started with, and need a
	// restart, sorted.
	Restart []string
	// refuses means that no client is accepted any more.
	refuses bool
}

// Reload puts another configuration in force, while calls continue: executions and calls that begin
// afterwards have its settings. Running ones keep theirs, but may use only the servers and tools that
// both configurations allow. The settings that a running daemon cannot change are those of the
// start. An error means that nothing has changed.
func (d *Daemon) Reload(ctx context.Context, c *config.Config) (Reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	last := d.now()
	r := Reloaded{refuses: d.cfg.HTTP.Authenticated() && !c.HTTP.Authenticated()}
	if err := (reloader{d}).checkReloadedSandboxes(c); err != nil {
		return Reloaded{}, err
	}
	changed := c.ChangedKeys(last)
	r.Restart = c.KeepFixed(last, d.cfg.HTTP.Authenticated())
	r.Applied = slices.DeleteFunc(changed, r.isNotApplied)
	next, err := reloader{d}.newState(c)
	if err != nil {
		return Reloaded{}, err
	}
	servers, err := newServerSet(c)
	if err != nil {
		return Reloaded{}, err
	}
	if err := d.parts.accept(ctx, c); err != nil {
		return Reloaded{}, err
	}
	if d.callers != nil {
		if err := d.callers.open(c.HTTP, d.HTTP.openKeys); err != nil {
			return Reloaded{}, err
		}
	}
	d.backend.add(c)
	if err := d.Servers.replace(ctx, c, servers, func() { d.live.Store(next) }, &r); err != nil {
		return Reloaded{}, err
	}
	reloader{d}.follow(last)
	if err := (reloader{d}).recordReload(c, r); err != nil { // does not undo the change
		d.log.Warn("configuration changes were not recorded", "error", err)
	}
	reloader{d}.logReload(c, r)
	return r, nil
}

// reloader puts other configurations in force.
type reloader struct{ *Daemon }

// follow makes everything that outlives a call use the configuration in force.
func (d reloader) follow(last *config.Config) {
	d.log.gate.Store(d.Privacy.For(redact.Owner{}))
	if selectionsDiffer(last, d.now()) {
		d.data.cfg.Modules.forget()
	}
	if err := d.Tenants.Reopen(); err != nil {
		d.log.Warn("close home", "error", err)
	}
	d.Servers.own.release()
	if d.mcp != nil {
		d.mcp.Recheck()
	}
}

// selectionsDiffer reports whether tenants may use other servers and tools.
func selectionsDiffer(a, b *config.Config) bool {
	differ := func(name string) bool { return a.Sections[name] != b.Sections[name] }
	return slices.ContainsFunc([]string{"tiers", "tenants", "subsets"}, differ) || a.Allow.Key() != b.Allow.Key()
}

// isNotApplied reports whether a changed key is of a server, which is reported by name, or needs a
// restart.
func (r Reloaded) isNotApplied(key string) bool {
	key = strings.TrimPrefix(key, "project.")
	return strings.HasPrefix(key, "servers.") || slices.Contains(r.Restart, key)
}

// replace changes the servers, the catalog and the modules together, and calls swap at the moment from
// which tenants see them. It adds the changes to r.
func (v *servers) replace(ctx context.Context, c *config.Config, next serverSet, swap func(), r *Reloaded) error {
	v.writing.Lock()
	defer v.writing.Unlock()
	last := *v.now.Load()
	r.compare(last, next)
	same := reflect.DeepEqual(last, next)
	if !same {
		if err := v.Set.Update(next.upstream); err != nil {
			return err
		}
	}
	v.lookup.Store(&c.Lookup)
	if same {
		swap()
		return nil
	}
	v.now.Store(&next)
	v.Catalog.Update(next.configured, next.static, next.disabled, swap)
	v.mu.Lock()
	for _, name := range slices.Concat(r.Removed, r.Changed) {
		delete(v.listing, name) // a request to the old server
	}
	v.mu.Unlock()
	v.modules.replace(c.Servers)
	v.modules.write(context.WithoutCancel(ctx), v.Catalog)
	v.listUnlisted()
	return nil
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

// recordReload writes the changes to the audit log.
func (d reloader) recordReload(c *config.Config, r Reloaded) error {
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

func (d reloader) logReload(c *config.Config, r Reloaded) {
	d.log.Info("the configuration was reloaded", "added", r.Added, "removed", r.Removed, "changed", r.Changed, "applied",
		strings.Join(r.Applied, ", "))
	for _, w := range r.Warnings(c) {
		d.log.Warn(w)
	}
	for _, f := range d.Policy().Findings(policy.Inventory{Servers: configuredNames(d.Servers)}) {
		d.log.Warn(f.String())
	}
}

// Warnings returns what the person should know about a reload to c.
func (r Reloaded) Warnings(c *config.Config) []string {
	all := slices.Clone(c.Warnings)
	if len(r.Restart) > 0 {
		all = append(all, "each of these changed settings needs a restart: "+strings.Join(r.Restart, ", "))
	}
	if r.refuses {
		all = append(all, "no token, API key, provider or client certificate is accepted any more, and every request is refused; serving "+
			"without authentication needs a restart")
	}
	return all
}

// reload reads the configuration again and applies it. A configuration with errors is logged, and
// has no effect.
func (d reloader) reload(ctx context.Context) (r Reloaded, warnings []string, err error) {
	if d.cfg.Load == nil {
		return r, nil, fault.New(fault.Unavailable, "this process cannot reload its configuration")
	}
	c, err := d.cfg.Load()
	if err == nil {
		r, err = d.Reload(ctx, c)
	}
	if err != nil {
		d.log.Error("the configuration was not reloaded; the previous one stays in effect", "error", err)
		line := audit.Line{Kind: audit.Configuration, Section: "reload", Outcome: "refused"}
		if err := d.data.audit.Append(context.WithoutCancel(ctx), line); err != nil {
			d.log.Warn("the refused configuration was not recorded", "error", err)
		}
		return r, nil, err
	}
	return r, r.Warnings(c), nil
}
