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

// safe is where logins are, and whose key the others are derived from.
func safe(dataDir string) *secret.Safe {
	return secret.NewSafe(filepath.Join(dataDir, "logins"), filepath.Join(dataDir, "key"))
}

func openAudit(dataDir string, keep audit.Keep, log *slog.Logger) (*audit.Log, error) {
	cfg, err := auditConfig(dataDir, true)
	if err != nil {
		return nil, err
	}
	cfg.Keep, cfg.Log = keep, log
	return audit.Open(cfg)
}

// Record has in the audit log what an operator did. It is done by now, whatever
// becomes of the line.
func (d *Daemon) Record(ctx context.Context, line audit.Line, done string) error {
	return record(ctx, d.Audit, line, done)
}

func record(ctx context.Context, log *audit.Log, line audit.Line, done string) error {
	if err := log.Append(context.WithoutCancel(ctx), line); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s, but that is not in the audit log: %s", done, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}

// AuditDir is where the audit log of a data directory lies.
func AuditDir(dataDir string) string { return filepath.Join(dataDir, "audit") }

// AuditConfig is that of the log in a data directory, for who only reads it.
func AuditConfig(dataDir string) (audit.Config, error) { return auditConfig(dataDir, false) }

func auditConfig(dataDir string, create bool) (audit.Config, error) {
	key, err := derive(dataDir, "audit", "the audit log", create)
	if err != nil {
		return audit.Config{}, err
	}
	return audit.Config{Dir: AuditDir(dataDir), Key: key}, nil
}

// derive returns the key for one purpose of those that come from the data
// directory's.
func derive(dataDir, purpose, of string, create bool) ([]byte, error) {
	key, err := safe(dataDir).Derive(purpose, create)
	if errors.Is(err, secret.ErrSealed) {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of %s is lost or damaged", of).
			WithHint("put the file key back in %s, from a backup; docs/audit.md says how to begin anew", dataDir)
	}
	if said, ok := errors.AsType[*fault.Error](err); ok {
		return nil, said
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of %s cannot be read or made", of).
			WithHint("the file key in %s must be readable for the user that runs Sandpiper", dataDir)
	}
	return key, nil
}
