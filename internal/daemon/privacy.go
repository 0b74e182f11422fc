package daemon

import (
	"cmp"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// openPrivacy builds detection and redaction, and opens the master key of the vaults.
func (d *Daemon) openPrivacy() (err error) {
	p := d.cfg.PII
	scanner, err := detect.New(p.Scan)
	if err != nil {
		return err
	}
	if d.Guard, err = d.guard(scanner); err != nil {
		return err
	}
	d.Privacy, err = redact.New(redact.Config{
		Filter: d.filter(), Mode: cmp.Or(redact.Mode(p.Mode), redact.Egress), Scanner: scanner, Flows: p.Flows, Project: p.Project,
		Reveal: reveals(p, d.cfg.Served), Record: d.recordCrossing, AllAddresses: p.Addresses == "all", IsToolName: d.own,
	})
	if err != nil {
		return err
	}
	d.noTenant.Store(d.Privacy.For(redact.Owner{}))
	d.master, err = vault.OpenMaster(context.Background(), p.Key, d.cfg.DataDir)
	return err
}

// own reports whether text is the name of a tool or server.
func (d *Daemon) own(text string) bool {
	return d.Servers != nil && d.Servers.Catalog.Now().IsName(text)
}

// guard builds the guardrails; nil if they are off.
func (d *Daemon) guard(scanner *detect.Scanner) (*guardrail.Guard, error) {
	g := d.cfg.Guardrails
	if g.Off {
		return nil, nil
	}
	g.Check.Scanner, g.Check.SkipOutput = scanner, g.Unfiltered
	return guardrail.New(g.Check)
}

// filter returns the last filter of text for models; nil means none.
func (d *Daemon) filter() *guardrail.Filter {
	g := d.cfg.Guardrails
	if g.Off || g.Unfiltered {
		return nil
	}
	return guardrail.NewFilter(true, !g.Loading)
}

// reveals reports whether restore_pii may show values: by default only to a client of
// the person who runs the daemon.
func reveals(p config.PII, served bool) bool {
	return p.Restore == "allow" || p.Restore != "deny" && !served
}

// vault opens the vault of one tenant.
func (d *Daemon) vault(id tenant.ID, db *store.DB) *vault.Vault {
	p := d.cfg.PII
	return vault.New(vault.Config{
		DB: db, Tenant: id, Master: d.master, TTL: p.TTL,
		MaxRecords: p.Tokens, MaxNew: p.New, MaxOnRequest: p.Asked, OnNewTokens: d.Telemetry.Minted, Log: d.log,
	})
}

// recordCrossing records in the audit log where values were sent. The line of a restore
// is on disk before the values are restored.
func (d *Daemon) recordCrossing(ctx context.Context, c redact.Transfer) error {
	line := audit.Line{
		Kind: audit.Restore, Tenant: c.Tenant, Session: c.Session, Execution: c.Execution,
		Destination: c.Destination, Types: c.Types, Tokens: c.Tokens, Decision: "allow",
	}
	if c.Denied {
		line.Decision = "deny"
	}
	if len(c.Tokens) == 0 || c.Denied {
		line.Kind = audit.Flow
		d.Audit.AppendLater(line)
		return nil
	}
	return d.Audit.Append(ctx, line)
}
