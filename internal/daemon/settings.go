package daemon

import (
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// settings returns the configuration in force for a tenant; for the zero ID, that of the daemon.
func (d *data) settings(id tenant.ID) *config.Config { return d.settingsIn(d.now(), id) }

// settingsIn returns the settings of a tenant in a configuration. A tier that cannot be read is
// logged; the tenant's home cannot be opened then.
func (d *data) settingsIn(c *config.Config, id tenant.ID) *config.Config {
	if id.IsZero() {
		return c
	}
	tier, err := d.homes.Tier(id)
	if err != nil {
		d.cfg.Log.Error("read the tier of a tenant", "tenant", id.String(), "error", err)
	}
	return c.For(id, tier)
}

// now returns the configuration in force.
func (d *data) now() *config.Config { return d.cfg.Live.Load().config }

// allow returns what selects the servers and tools that a viewer may use.
func (d *data) allow(v catalog.Viewer) []*catalog.Allow {
	now := d.now()
	own := d.settingsIn(now, v.Tenant).Allow
	if v.Subset == "" {
		return []*catalog.Allow{own}
	}
	subset, ok := now.Subsets[v.Subset]
	if !ok { // it was removed while an execution ran or was suspended
		subset = nothing
	}
	return []*catalog.Allow{own, subset}
}

// nothing selects no server.
var nothing = func() *catalog.Allow {
	a, err := catalog.NewAllow([]string{}, nil)
	if err != nil {
		panic(err)
	}
	return a
}()

// subsetModules returns the key of the generated modules that code sees in a subset, and a
// string that identifies its servers and tools.
func (d *data) subsetModules(id tenant.ID, subset string) (modules, selection string) {
	allow := d.allow(catalog.Viewer{Tenant: id, Subset: subset})
	for _, a := range allow {
		selection += a.Key() + "\n"
	}
	return d.cfg.Modules.register(id, allow...), selection
}

// homeSettings returns the settings of a tenant's data.
func (d *data) homeSettings(id tenant.ID, tier string) home.Settings {
	c := d.now().For(id, tier)
	return home.Settings{
		Quota: c.Workspace.Quota, Results: c.Workspace.Results, Quotas: c.Quotas,
		Modules: d.cfg.Modules.register(id, c.Allow), Selection: c.Allow.Key(),
	}
}

// limits are the settings of tenants.
type limits struct{ *Daemon }

// executionSettings returns the limits of a tenant's executions.
func (d limits) executionSettings(id tenant.ID) execution.Settings {
	c := d.data.settings(id)
	return execution.Settings{
		Limits: c.Limits, WorkspaceDisk: c.Workspace.Quota.Bytes, WorkspaceFiles: c.Workspace.Quota.Files,
		OutputBytes: int64(c.Guardrails.MaxOutput), Interpreters: c.Sessions.PerTenant, Sandbox: c.Sandbox(), PackageLayer: c.PackageLayer,
		Network: len(d.networkHosts(id)) > 0,
	}
}

// networkHosts returns the hosts to which code of a tenant may send requests.
func (d limits) networkHosts(id tenant.ID) []string {
	return network(d.cfg.Features).Hosts(d.data.settings(id))
}

// concurrent returns how many executions a tenant may run at once.
func (d limits) concurrent(owner string) int {
	id, err := tenant.ParseStored(owner)
	if err != nil { // an owner within Sandpiper
		return 0
	}
	return d.data.settings(id).Admit.PerOwner
}

// Settings returns the configuration for a tenant.
func (d *Daemon) Settings(id tenant.ID) *config.Config { return d.data.settings(id) }
