package config

import (
	"maps"

	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
)

// quotaKeys are the quotas of each tenant, in periods of time.
var quotaKeys = func() map[string]key {
	all := map[string]key{}
	for _, n := range quota.Names {
		all["quotas."+string(n)] = key{tenant: true, read: func(d *draft, s setting) error {
			var most int
			if err := whole(&most, s, 1, 1<<30); err != nil {
				return err
			}
			d.Quotas = maps.Clone(d.Quotas) // shared with other tenants
			if d.Quotas == nil {
				d.Quotas = quota.Limits{}
			}
			d.Quotas[n] = int64(most)
			return nil
		}}
	}
	return all
}()
