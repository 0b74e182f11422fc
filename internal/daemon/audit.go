package daemon

import (
	"context"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func openAudit(dir dataDir, keep audit.Retention, log *slog.Logger) (*audit.Log, error) {
	cfg, err := auditConfig(dir, true)
	if err != nil {
		return nil, err
	}
	cfg.Retention, cfg.Log = keep, log
	return audit.Open(cfg)
}

// pinKey pins the key of the data directory, or fails if another one is pinned. Without a
// fingerprint (an earlier version, an incomplete backup) the audit log identifies the key that the
// data directory was written with.
func (d dataDir) pinKey() error {
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

func (d dataDir) checkAuditKey() error {
	cfg := audit.Config{Dir: d.sub("audit")}
	if ok, err := audit.MatchesKey(cfg); ok || err != nil { // without lines
		return err
	}
	cfg, err := auditConfig(d, false)
	if err != nil {
		return err
	}
	if ok, err := audit.MatchesKey(cfg); ok || err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "the audit log was written with another master key than the one in the key file").
		WithHint("restore the file key in %s from a backup; docs/audit.md describes how to start over", d)
}

// record writes a line to the audit log. done describes the action for the error, since
// it has already taken effect.
func record(ctx context.Context, log *audit.Log, line audit.Line, done string) error {
	if err := log.Append(context.WithoutCancel(ctx), line); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s, but the audit log has no record of it: %s", done, fault.Message(err)).
			WithHint("%s", fault.Hint(err))
	}
	return nil
}

// AuditDir returns the directory of the audit log.
func AuditDir(dir string) string { return dataDir(dir).sub("audit") }

// AuditConfig returns the configuration for reading the audit log of a data directory.
func AuditConfig(dir string) (audit.Config, error) { return auditConfig(dataDir(dir), false) }

func auditConfig(dir dataDir, create bool) (audit.Config, error) {
	key, err := dir.derive("audit", "the audit log", create)
	if err != nil {
		return audit.Config{}, err
	}
	return audit.Config{Dir: dir.sub("audit"), Key: key}, nil
}
