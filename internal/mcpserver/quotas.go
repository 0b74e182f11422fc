package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// rates returns the function that reports the state of a caller's quotas; nil without quotas.
func (s *Server) rates(limited func(tenant.ID) bool) func(context.Context, string) []wire.Rate {
	if limited == nil {
		return nil
	}
	return func(ctx context.Context, caller string) (rates []wire.Rate) {
		id, err := tenant.ParseStored(caller)
		if err != nil || !limited(id) {
			return nil
		}
		home, err := s.cfg.Tenants.Acquire(ctx, id)
		if err != nil { // the request itself reports it
			return nil
		}
		all, err := home.Quotas.Status(ctx)
		if released := home.Release(ctx); err != nil || released != nil {
			return nil
		}
		for _, q := range all {
			rates = append(rates, wire.Rate{Name: string(q.Name), Limit: q.Limit, Left: q.Left(), Period: q.Period, Retry: q.Retry})
		}
		return rates
	}
}
