package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// data is the opened part of the data directory.
type data struct {
	dataDir
	cfg     dataConfig
	homes   *home.Homes
	audit   *audit.Log
	master  vault.Master     // wraps the keys of tenants' vaults
	process *journal.Process // this process
	refused *refusals        // records rejected tokens and ids
	decided func(audit.Line) // called after a line about an approval; set before use
}

// dataConfig of openData. All fields are required, but Telemetry.
type dataConfig struct {
	Config
	Live      *live         // the configuration in force
	Modules   *modules      // generated modules
	Privacy   *redact.Rules // redacts the logs of sessions
	Telemetry *telemetry.Recorder
	Log       *slog.Logger
}

func openData(cfg dataConfig) (*data, error) {
	d := &data{dataDir: dataDir(cfg.DataDir), cfg: cfg, decided: func(audit.Line) {}}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *data) open() (err error) {
	cfg, ctx := d.cfg, context.Background()
	if d.master, err = openMaster(&cfg.Config.Config, cfg.Log); err != nil {
		return err
	}
	uids, err := process.TenantUIDs()
	if err != nil {
		return err
	}
	d.process = journal.NewProcess(d.sub("processes"), func() ([]byte, error) { return d.derive("journal", "the journal", true) })
	d.homes, err = home.Open(ctx, home.Config{
		Features:       HomeFeatures(cfg.Features),
		Root:           cfg.DataDir,
		FirstUID:       process.FirstUID,
		UIDs:           uids,
		Quota:          cfg.Workspace.Quota,
		Results:        cfg.Workspace.Results,
		Modules:        cfg.Modules.register(cfg.Tenant),
		Settings:       d.homeSettings,
		RecentCode:     cfg.RecentCode,
		KeepBackground: cfg.Background.Keep,
		Learn:          d.keepUses(),
		Vault:          d.vault,
		Redact:         d.redact,
		Approvals:      d.approvals,
		Process:        d.process,
		RecordTokens:   cfg.Telemetry.Tokens,
		RecordRefusal:  cfg.Telemetry.Refused,
		Log:            cfg.Log,
	})
	if err != nil {
		return err
	}
	cfg.Modules.homes = d.homes
	if err = d.pinKey(); err != nil { // before writing anything with another key
		return err
	}
	if err = d.checkKeys(); err != nil {
		return err
	}
	if d.audit, err = openAudit(d.dataDir, cfg.Audit, cfg.Log); err != nil {
		return err
	}
	d.refused = newRefusals(d.audit.AppendLater)
	return nil
}

// openMaster returns the master key of a configuration.
func openMaster(c *config.Config, log *slog.Logger) (vault.Master, error) {
	if len(c.PII.KeyCommand) > 0 {
		return vault.NewCommandMaster(c.PII.KeyCommand, log), nil
	}
	return vault.OpenMaster(context.Background(), c.PII.Key, c.DataDir)
}

// auditLater writes a line to the audit log. Lines about refused ids are limited.
func (d *data) auditLater(line audit.Line) {
	if line.Kind == audit.Access {
		d.refused.add(line)
		return
	}
	d.audit.AppendLater(line)
}

func (d *data) close() error {
	var errs []error
	if d.homes != nil {
		errs = append(errs, d.homes.Close())
	}
	if d.refused != nil {
		d.refused.close()
	}
	if d.process != nil { // after the executions
		errs = append(errs, d.process.Close())
	}
	if d.audit != nil { // after all writers
		errs = append(errs, d.audit.Close())
	}
	return errors.Join(errs...)
}

// checkKeys returns an error if a key differs from the one that the data directory was
// written with. A master key outside a file is checked when a vault is opened.
func (d *data) checkKeys() error {
	if err := d.key().Check(); err != nil {
		return err
	}
	if m, ok := d.master.(interface{ Check() error }); ok {
		return m.Check()
	}
	return nil
}

// vault opens the vault of one tenant.
func (d *data) vault(id tenant.ID, db *store.DB) *vault.Vault {
	p := d.settings(id).PII
	return vault.New(vault.Config{
		DB: db, Tenant: id, Master: d.master, TTL: p.TTL,
		MaxRecords: p.Tokens, MaxNew: p.New, MaxOnRequest: p.Asked, OnNewTokens: d.cfg.Telemetry.Minted,
		OnRefused: func(key string) { d.cfg.Telemetry.Refused(id.String(), key) }, Log: d.cfg.Log,
	})
}

// redact replaces private values in text of a tenant's session by tokens, and discloses
// these to the session.
func (d *data) redact(ctx context.Context, id tenant.ID, v *vault.Vault, session, text string) (string, error) {
	return d.cfg.Privacy.For(redact.Owner{Tenant: id, Vault: v, Session: session}).Tokenize(ctx, "", text)
}

// keepUses returns how long it is kept which tools were used.
func (d *data) keepUses() time.Duration {
	if !d.cfg.Search.Learn {
		return 0
	}
	return learned.DefaultAge
}

// importSkills imports the skills in SKILLS_DIR for a tenant.
func (d *data) importSkills(id tenant.ID) {
	if d.cfg.SkillsDir == "" {
		return
	}
	ctx, log := context.Background(), d.cfg.Log
	home, err := d.homes.Acquire(ctx, id)
	if err != nil {
		log.Warn("SKILLS_DIR has no effect", "error", err)
		return
	}
	names, err := home.Skills.Import(ctx, d.cfg.SkillsDir)
	if err = errors.Join(err, home.Release(ctx)); err != nil {
		log.Warn("not all skills were imported", "directory", d.cfg.SkillsDir, "error", err)
	}
	if len(names) > 0 {
		log.Info("imported skills", "directory", d.cfg.SkillsDir, "names", names)
	}
}

// recordTransfer records in the audit log where values were sent. The line of a restore
// is on disk before the values are restored.
func (d *data) recordTransfer(ctx context.Context, c redact.Transfer) error {
	line := audit.Line{
		Kind: audit.Restore, Tenant: c.Tenant, Session: c.Session, Execution: c.Execution,
		Destination: c.Destination, Types: c.Types, Tokens: c.Tokens, Decision: "allow",
	}
	if c.Denied {
		line.Decision = "deny"
	}
	if len(c.Tokens) == 0 || c.Denied {
		line.Kind = audit.Flow
		d.audit.AppendLater(line)
		return nil
	}
	return d.audit.Append(ctx, line)
}
