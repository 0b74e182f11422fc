package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// safe returns the store of logins, whose key the other keys are derived from.
func safe(dataDir string) *secret.Store {
	return secret.NewStore(filepath.Join(dataDir, "logins"), filepath.Join(dataDir, "key"))
}

func openAudit(dataDir string, keep audit.Retention, log *slog.Logger) (*audit.Log, error) {
	cfg, err := auditConfig(dataDir, true)
	if err != nil {
		return nil, err
	}
	cfg.Retention, cfg.Log = keep, log
	return audit.Open(cfg)
}

// pinKey pins the key of the data directory, or fails if another one is pinned. Without a
// fingerprint (an earlier version, an incomplete backup) the audit log tells which key the
// data directory was written with.
func (d *Daemon) pinKey() error {
	pinned, err := d.key().IsPinned()
	if err == nil && !pinned {
		err = d.checkAuditKey()
	}
	if err != nil {
		return err
	}
	_, err = d.key().ReadPinned()
	return err
}

func (d *Daemon) checkAuditKey() error {
	cfg := audit.Config{Dir: AuditDir(d.cfg.DataDir)}
	if ok, err := audit.MatchesKey(cfg); ok || err != nil { // without lines
		return err
	}
	cfg, err := auditConfig(d.cfg.DataDir, false)
	if err != nil {
		return err
	}
	if ok, err := audit.MatchesKey(cfg); ok || err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "the audit log was written with another master key than the one in the key file").
		WithHint("restore the file key in %s from a backup; docs/audit.md describes how to start over", d.cfg.DataDir)
}

// Record writes an operator's action to the audit log. done describes the action for
// the error, since it has already taken effect.
func (d *Daemon) Record(ctx context.Context, line audit.Line, done string) error {
	return record(ctx, d.Audit, line, done)
}

func record(ctx context.Context, log *audit.Log, line audit.Line, done string) error {
	if err := log.Append(context.WithoutCancel(ctx), line); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s, but the audit log has no record of it: %s", done, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

// AuditDir returns the directory of the audit log.
func AuditDir(dataDir string) string { return filepath.Join(dataDir, "audit") }

// AuditConfig returns the configuration for reading the audit log of a data directory.
func AuditConfig(dataDir string) (audit.Config, error) { return auditConfig(dataDir, false) }

func auditConfig(dataDir string, create bool) (audit.Config, error) {
	key, err := derive(dataDir, "audit", "the audit log", create)
	if err != nil {
		return audit.Config{}, err
	}
	return audit.Config{Dir: AuditDir(dataDir), Key: key}, nil
}

// derive derives the key for one purpose from the key of the data directory.
func derive(dataDir, purpose, of string, create bool) ([]byte, error) {
	key, err := safe(dataDir).DeriveKey(purpose, create)
	if errors.Is(err, secret.ErrUndecryptable) {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of %s is lost or damaged", of).
			WithHint("restore the file key in %s from a backup; docs/audit.md describes how to start over", dataDir)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return nil, f
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of %s cannot be read or created", of).
			WithHint("the file key in %s must be readable by the user that runs Sandpiper", dataDir)
	}
	return key, nil
}
