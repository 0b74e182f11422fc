package home

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
	"github.com/sandpiper-mcp/sandpiper/internal/home/usage"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// sessions opens the log of the sessions, which is encrypted with a key of the tenant.
func (t opener) sessions(r *parts, p paths) (*session.Log, error) {
	key, err := t.deriveKey("sessions", r.id, "the session logs")
	if err != nil {
		return nil, err
	}
	cfg := session.Config{
		DB:         r.db,
		Customer:   r.id.String(),
		Projection: p.sessionProjection,
		Lock:       p.sessionLock,
		Key:        key,
		Log:        t.cfg.Log,
	}
	if t.cfg.Redact != nil {
		cfg.Redact = func(ctx context.Context, session, text string) (string, error) {
			return t.cfg.Redact(ctx, r.id, r.vault, session, text)
		}
	}
	return session.New(cfg)
}

// deriveKey returns a key of a tenant for the data of one kind; what is its name in errors.
func (t opener) deriveKey(kind string, id tenant.ID, what string) ([]byte, error) {
	key, err := t.layout.key().DeriveKey(kind+"\x00"+id.String(), true)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "open %s: %s", what, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return key, nil
}

// usedTools opens the records of used tools.
func (t opener) usedTools(r *parts) *learned.Store {
	cfg := learned.Config{In: r.bodies, Age: t.cfg.Learn, Log: t.cfg.Log}
	if t.cfg.Redact != nil {
		cfg.Redact = func(ctx context.Context, text string) (string, error) {
			return t.cfg.Redact(ctx, r.id, r.vault, "", text)
		}
	}
	return learned.New(cfg)
}

// bodies opens what package sealed stores, with a key of the tenant.
func (t opener) bodies(id tenant.ID, db *store.DB) (sealed.Store, error) {
	key, err := t.deriveKey("sealed", id, "the encrypted data")
	if err != nil {
		return sealed.Store{}, err
	}
	cipher, err := sealed.New(key, id.String())
	return sealed.Store{DB: db, Cipher: cipher}, err
}

func (t opener) fill(ctx context.Context, r *parts) (err error) {
	p := t.layout.of(r.id)
	if r.use, err = p.lockUse(r.id); err != nil {
		return err
	}
	if err := errors.Join(p.writeUID(r.id), p.make()); err != nil {
		return err
	}
	if r.tier, err = p.readTier(); err != nil {
		return err
	}
	r.settings = t.settings(r.id, r.tier)
	if err := t.MakeModules(r.settings.Modules); err != nil {
		return err
	}
	if r.uid, err = t.assignUID(ctx, p); err != nil {
		return err
	}
	if err := p.checkDatabase(); err != nil {
		return restorable(r.id, err)
	}
	if r.db, err = openDatabase(ctx, t.layout, p.db); err != nil {
		return restorable(r.id, err)
	}
	if err := t.openStores(r, p); err != nil {
		return err
	}
	return t.openWorkspace(ctx, r, p)
}

// openStores opens what is kept in the database of a tenant.
func (t opener) openStores(r *parts, p paths) (err error) {
	r.skills = skill.New(skill.Config{DB: r.db, Projection: p.skillProjection, Lock: p.skillLock,
		Reserve: func(ctx context.Context, bytes int64) (func(), error) { return r.files.Reserve(ctx, bytes, 1) }})
	r.journal, r.shapes = journal.New(journal.Config{DB: r.db, Tenant: r.id, Process: t.cfg.Process, Log: t.cfg.Log,
		Due: func(at time.Time) error { return t.layout.marks(Executions).Set(r.id, at) }}), catalog.NewShapes(r.db, t.cfg.Log)
	r.usage = usage.New(r.db, t.cfg.RecordTokens, t.cfg.Log)
	r.quotas = quota.New(quota.Config{DB: r.db, Limits: r.settings.Quotas, Log: t.cfg.Log,
		Refused: func(n quota.Name) { t.cfg.RecordRefusal(r.id.String(), string(n)) }})
	if t.cfg.Vault != nil {
		r.vault = t.cfg.Vault(r.id, r.db)
	}
	if r.sessions, err = t.sessions(r, p); err != nil {
		return err
	}
	if r.bodies, err = t.bodies(r.id, r.db); err != nil {
		return err
	}
	room := func(bytes int64) error { return r.files.CheckReserve(bytes) }
	r.streams = stream.New(stream.Config{Dir: filepath.Join(p.private, streamsDir), Cipher: r.bodies.Cipher, CheckDisk: room})
	r.recent = recent.New(recent.Config{In: r.bodies, Keep: t.cfg.RecentCode, Log: t.cfg.Log})
	if t.cfg.Learn > 0 {
		r.learned = t.usedTools(r)
	}
	if t.cfg.Approvals != nil {
		if r.approvals, err = t.cfg.Approvals(r.id, r.db); err != nil {
			return err
		}
		r.approvals.Closed = func(ctx context.Context, tx *store.Tx, a approval.Request) error {
			return r.journal.Runs().WakeIn(ctx, tx, a.Execution, journal.ApprovalEvent(a.ID))
		}
	}
	return nil
}

// openWorkspace opens the workspace of a tenant, with its mount points.
func (t opener) openWorkspace(ctx context.Context, r *parts, p paths) (err error) {
	mounts := map[string]string{skillsMount: p.skillProjection, sessionsMount: p.sessionProjection}
	if key := r.settings.Modules; key != "" {
		mounts[serversMount], _ = t.Modules(key)
	}
	cfg := workspace.Config{Dir: p.workspace, Quota: r.settings.Quota, Mounts: mounts, Unlisted: ResultsDir,
		Refused: func(key string) { t.cfg.RecordRefusal(r.id.String(), key) }}
	if r.uid != selfUID() {
		cfg.Owner = r.uid
	}
	cfg.Staging = p.staging()
	if r.files, err = workspace.Open(cfg); err != nil {
		return err
	}
	moved, err := r.files.PrepareMounts(ctx, slices.Sorted(maps.Keys(mounts))...)
	if err == nil {
		t.refresh(ctx, r)
	}
	for _, m := range moved {
		t.cfg.Log.Warn("renamed an entry that blocked a mount point", "tenant", r.id.String(), "from", m.From, "to", m.To)
	}
	return err
}
