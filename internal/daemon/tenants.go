package daemon

import (
	"context"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// CheckTenant returns an error for a tenant that has neither data nor a token, whose
// id is probably misspelled.
func (d *Daemon) CheckTenant(id tenant.ID) error {
	for _, t := range d.now().HTTP.Tokens {
		if t.Tenant == id {
			return nil
		}
	}
	has, err := d.Tenants.Exists(id)
	if err != nil || has || id == tenant.Local || d.now().Tenants.Has(id) {
		return err
	}
	e := fault.New(fault.NotFound, "there is no tenant %q", id)
	if near := (limits{d}).nearTenants(id); len(near) > 0 {
		return e.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("`sandpiper tenant list` prints all; `sandpiper tenant create %s` creates it", id)
}

// nearTenants returns tenants with similar ids that have data, a token or settings, for the operator.
func (d limits) nearTenants(id tenant.ID) []string {
	names := d.now().Tenants.Named()
	for _, t := range d.now().HTTP.Tokens {
		names = append(names, t.Tenant.String())
	}
	all, _ := d.Tenants.List(context.Background()) // without them there are fewer suggestions
	for _, e := range all {
		names = append(names, e.ID.String())
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return fault.Nearest(id.String(), names, 3)
}
