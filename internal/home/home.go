package home

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/usage"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// migrations create and upgrade a tenant's database, oldest first. Each package that owns
// tables defines their SQL. A released migration is never changed; testdata/README.md
// describes how to add one.
var migrations = []store.Migration{
	{Number: 1, Name: "initial", SQL: skill.Tables + session.Tables + journal.Tables + catalog.ShapeTables + usage.Tables + vault.Tables + approval.Tables},
}

// Home is the data of one tenant, open until Release.
type Home struct {
	Workspace *workspace.Files
	Skills    *skill.Store
	Sessions  *session.Log
	Journal   *journal.Log
	Shapes    *catalog.Shapes
	Usage     *usage.Counter
	Vault     *vault.Vault    // nil if Config.Vault is
	Approvals *approval.Store // nil if Config.Approvals is

	rooms   *rooms
	modules string // key of the generated modules, "" for none
	release func() error
	share   func() *Home
}

// ID is the tenant.
func (h *Home) ID() tenant.ID { return h.rooms.id }

// UID is the host uid that owns the workspace. It is the tenant's own where the
// daemon is root and has uids to give, else the daemon's.
func (h *Home) UID() int { return h.rooms.uid }

// Mounts is what code of this tenant sees, for a sandbox whose backend knows
// Tenants.Roots.
func (h *Home) Mounts() []sandbox.Mount {
	name := h.rooms.id.String()
	mounts := []sandbox.Mount{
		{Target: "/workspace", Root: rootWorkspaces, Name: name},
		{Target: "/workspace/" + skillsMount, Root: rootSkills, Name: name, ReadOnly: true},
		{Target: "/workspace/" + sessionsMount, Root: rootSessions, Name: name, ReadOnly: true},
	}
	if h.modules != "" {
		mounts = append(mounts, sandbox.Mount{Target: "/workspace/" + serversMount, Root: rootServers, Name: h.modules, ReadOnly: true})
	}
	return mounts
}

// Retain returns the home once more, for somebody who may keep it longer. It has
// to be released too.
func (h *Home) Retain() *Home { return h.share() }

// Release gives the home back. It is idempotent; the home is not used after it.
func (h *Home) Release(context.Context) error { return h.release() }

// rooms are the opened parts of a home, shared by all who have acquired it.
type rooms struct {
	id        tenant.ID
	uid       int
	db        *store.DB
	skills    *skill.Store
	sessions  *session.Log
	journal   *journal.Log
	shapes    *catalog.Shapes
	meter     *usage.Counter
	vault     *vault.Vault
	approvals *approval.Store
	files     *workspace.Files
}

func (r *rooms) close() error {
	var errs []error
	if r.sessions != nil {
		errs = append(errs, r.sessions.Close())
	}
	if r.shapes != nil {
		errs = append(errs, r.shapes.Close(), r.meter.Close())
	}
	if r.files != nil {
		errs = append(errs, r.files.Close())
	}
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
	}
	if r.db != nil {
		errs = append(errs, r.db.Close())
	}
	return errors.Join(errs...)
}

// openWait bounds the opening of a home.
const openWait = 30 * time.Second

// open opens the parts of a home, and makes those that are missing. Others may
// wait for the same home, so it goes on when who asked first has left.
func (t *Homes) open(ctx context.Context, id tenant.ID) (*rooms, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openWait)
	defer cancel()
	r := &rooms{id: id}
	if err := t.fill(ctx, r); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// refresh shows the skills and sessions as the database has them: somebody may
// have died between saving and showing. It also has what has expired erased. A home whose views cannot be written, on
// a full disk say, is still good for most; and for making room.
func (t *Homes) refresh(ctx context.Context, r *rooms) {
	if err := r.files.Prune(ctx, ResultsDir, t.cfg.Results.Age, t.cfg.Results.Bytes); err != nil {
		t.cfg.Log.Warn("old results are still in the workspace", "tenant", r.id.String(), "error", err)
	}
	if err := r.skills.Refresh(ctx); err != nil {
		t.cfg.Log.Warn("code may import skills as they were before", "tenant", r.id.String(), "error", err)
	}
	if err := r.sessions.Refresh(ctx); err != nil {
		t.cfg.Log.Warn("code may see session logs as they were before", "tenant", r.id.String(), "error", err)
	}
	if r.vault != nil {
		if err := r.vault.Sweep(ctx); err != nil {
			t.cfg.Log.Warn("values that have expired are still in the vault", "tenant", r.id.String(), "error", err)
		}
	}
	if r.approvals != nil {
		if err := r.approvals.Sweep(ctx); err != nil {
			t.cfg.Log.Warn("old approvals are still kept", "tenant", r.id.String(), "error", err)
		}
	}
}

// sessions opens the log of a tenant's sessions, which is encrypted with a key of the
// tenant.
func (t *Homes) sessions(r *rooms, p places) (*session.Log, error) {
	key, err := t.layout.key().DeriveKey("sessions\x00"+r.id.String(), true)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the logs of sessions cannot be opened: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	cfg := session.Config{DB: r.db, Customer: r.id.String(), Projection: p.sessionView, Lock: p.sessionLock, Key: key}
	if t.cfg.Redact != nil {
		cfg.Redact = func(ctx context.Context, session, text string) (string, error) {
			return t.cfg.Redact(ctx, r.id, r.vault, session, text)
		}
	}
	return session.New(cfg)
}

func (t *Homes) fill(ctx context.Context, r *rooms) (err error) {
	p := t.layout.of(r.id)
	if err := p.make(); err != nil {
		return err
	}
	if r.uid, err = t.settle(ctx, p); err != nil {
		return err
	}
	if err := p.lost(); err != nil {
		return err
	}
	if r.db, err = store.Open(ctx, p.db, migrations); err != nil {
		return err
	}
	r.skills = skill.New(skill.Config{DB: r.db, Projection: p.skillView, Lock: p.skillLock,
		Reserve: func(ctx context.Context, bytes int64) (func(), error) { return r.files.Reserve(ctx, bytes, 1) }})
	r.journal, r.shapes = journal.New(journal.Config{DB: r.db, Tenant: r.id, Process: t.cfg.Process}), catalog.NewShapes(r.db, t.cfg.Log)
	r.meter = usage.New(r.db, t.cfg.RecordTokens, t.cfg.Log)
	if t.cfg.Vault != nil {
		r.vault = t.cfg.Vault(r.id, r.db)
	}
	if r.sessions, err = t.sessions(r, p); err != nil {
		return err
	}
	if t.cfg.Approvals != nil {
		if r.approvals, err = t.cfg.Approvals(r.id, r.db); err != nil {
			return err
		}
	}
	mounts := map[string]string{skillsMount: p.skillView, sessionsMount: p.sessionView}
	if t.cfg.Modules != "" {
		mounts[serversMount], _ = t.Modules()
	}
	cfg := workspace.Config{Dir: p.workspace, Quota: t.cfg.Quota, Mounts: mounts}
	if r.uid != selfUID() {
		cfg.Owner = r.uid
	}
	cfg.Scratch = p.scratch()
	if r.files, err = workspace.Open(cfg); err != nil {
		return err
	}
	moved, err := r.files.Prepare(ctx, slices.Sorted(maps.Keys(mounts))...)
	if err == nil {
		t.refresh(ctx, r)
	}
	for _, m := range moved {
		t.cfg.Log.Warn("something lay where a mount has to be, and was renamed", "tenant", r.id.String(), "from", m.From, "to", m.To)
	}
	return err
}
