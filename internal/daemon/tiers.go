package daemon

import (
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Tiers are the groups of tenants with common settings.
type Tiers struct {
	now     func() *config.Config // in force
	tenants *home.Homes
}

// Of returns the tier of a tenant in effect, "" if it has none.
func (t *Tiers) Of(id tenant.ID) (string, error) {
	stored, err := t.tenants.Tier(id)
	return t.WithStored(id, stored), err
}

// WithStored returns the tier in effect of a tenant with a stored tier.
func (t *Tiers) WithStored(id tenant.ID, stored string) string {
	tenants := t.now().Tenants
	if tenants == nil {
		return ""
	}
	return tenants.Tier(id, stored)
}

// Set stores the tier of a tenant; "" removes it.
func (t *Tiers) Set(id tenant.ID, tier string) error {
	if err := t.Check(tier); err != nil {
		return err
	}
	return t.tenants.SetTier(id, tier)
}

// names returns the names of the configured tiers.
func (t *Tiers) names() []string {
	tenants := t.now().Tenants
	if tenants == nil {
		return nil
	}
	return tenants.Tiers()
}

// Check returns an error for a tier that is not configured; "" is none.
func (t *Tiers) Check(tier string) error {
	if tier == "" {
		return nil
	}
	tiers := t.names()
	if slices.Contains(tiers, tier) {
		return nil
	}
	e := fault.New(fault.Invalid, "there is no tier %.40q", tier)
	if len(tiers) == 0 {
		return e.WithHint("the configuration has none: add it below tiers:")
	}
	if near := fault.Nearest(tier, tiers, 1); near != nil {
		return e.WithHint("did you mean %s?", near[0])
	}
	return e.WithHint("tiers in the configuration are %s", strings.Join(tiers, ", "))
}
