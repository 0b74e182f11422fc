package home

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

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
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// migrations create and upgrade a tenant's database, oldest first. Each package that owns
// tables defines their SQL. Until the first release, tables are changed in place: CONTRIBUTING.md.
var migrations = []store.Migration{
	{Number: 1, Name: "initial", SQL: skill.Tables + session.Tables + journal.Tables + catalog.ShapeTables + usage.Tables + vault.Tables + approval.Tables +
		quota.Tables + sealed.Tables},
}

// Home is the data of one tenant, open until Release.
type Home struct {
	Workspace *workspace.Files
	Skills    *skill.Store
	Sessions  *session.Log
	Streams   *stream.Store
	Journal   *journal.Log
	Shapes    *catalog.Shapes
	Usage     *usage.Counter
	Quotas    *quota.Counter
	Recent    *recent.Store
	Learned   *learned.Store // nil if Config.Learn is 0

	Runs      *journal.Runs
	Vault     *vault.Vault    // nil if Config.Vault is
	Approvals *approval.Store // nil if Config.Approvals is

	parts   *parts
	release func() error
	share   func() *Home
}

// ID returns the tenant.
func (h *Home) ID() tenant.ID { return h.parts.id }

// UID returns the host uid that owns the workspace: the tenant's own if the daemon is root and
// has uids for tenants, otherwise the daemon's.
func (h *Home) UID() int { return h.parts.uid }

// Sealed returns the encrypted data of the tenant, for a table of it.
func (h *Home) Sealed() sealed.Store { return h.parts.bodies }

// CheckRoom fails if the disk has no room for so many more bytes of the tenant.
func (h *Home) CheckRoom(bytes int64) error { return h.parts.files.CheckReserve(bytes) }

// Selection identifies the servers and tools that the tenant may use.
func (h *Home) Selection() string { return h.parts.settings.Selection }

// Mounts returns the mounts of a sandbox of this tenant. The backend is configured with
// Tenants.Roots.
func (h *Home) Mounts() []sandbox.Mount { return h.MountsWith(h.parts.settings.Modules) }

// MountsWith is Mounts with the generated modules of a key; "" means none.
func (h *Home) MountsWith(modules string) []sandbox.Mount {
	name := h.parts.id.Dir()
	mounts := []sandbox.Mount{
		{Target: "/workspace", Root: rootWorkspaces, Name: name},
		{Target: "/workspace/" + skillsMount, Root: rootSkills, Name: name, ReadOnly: true},
		{Target: "/workspace/" + sessionsMount, Root: rootSessions, Name: name, ReadOnly: true},
	}
	if modules != "" {
		mounts = append(mounts, sandbox.Mount{Target: "/workspace/" + serversMount, Root: rootServers, Name: modules, ReadOnly: true})
	}
	return mounts
}

// ForgetSearches deletes which tools were called after which searches, also if Learned is nil.
func (h *Home) ForgetSearches(ctx context.Context) (learned.Forgotten, error) {
	return learned.Forget(ctx, h.parts.bodies)
}

// Retain returns another reference to the home, which is released separately.
func (h *Home) Retain() *Home { return h.share() }

// Release releases the reference. It is idempotent; the home must not be used afterwards.
func (h *Home) Release(context.Context) error { return h.release() }

// parts are the opened stores of a home, shared by all its references.
type parts struct {
	id        tenant.ID
	marks     func(name string) Marks
	private   string // directory
	tier      string // as stored
	settings  Settings
	uid       int
	use       *flock.Flock // held shared while the home is open
	used      atomic.Int64 // when markUsed last wrote; Unix nanoseconds
	db        *store.DB
	bodies    sealed.Store // in which several of the others store
	skills    *skill.Store
	sessions  *session.Log
	streams   *stream.Store
	journal   *journal.Log
	shapes    *catalog.Shapes
	usage     *usage.Counter
	quotas    *quota.Counter
	recent    *recent.Store
	learned   *learned.Store
	vault     *vault.Vault
	approvals *approval.Store
	files     *workspace.Files
}

// home returns a Home that counts as no use.
func (r *parts) home() *Home {
	return &Home{
		Workspace: r.files,
		Skills:    r.skills,
		Sessions:  r.sessions,
		Streams:   r.streams,
		Journal:   r.journal,
		Runs:      r.journal.Runs(),
		Shapes:    r.shapes,
		Usage:     r.usage,
		Quotas:    r.quotas,
		Recent:    r.recent,
		Learned:   r.learned,
		Vault:     r.vault,
		Approvals: r.approvals,
		parts:     r,
	}
}

func (r *parts) close() error {
	var errs []error
	if r.sessions != nil {
		errs = append(errs, r.sessions.Close())
	}
	if r.shapes != nil {
		errs = append(errs, r.shapes.Close(), r.usage.Close(), r.quotas.Close())
	}
	if r.recent != nil {
		errs = append(errs, r.recent.Close())
	}
	errs = append(errs, r.learned.Close())
	if r.files != nil {
		errs = append(errs, r.files.Close())
	}
	if r.journal != nil {
		errs = append(errs, r.journal.Close())
	}
	if r.db != nil {
		errs = append(errs, r.db.Close())
	}
	if r.use != nil {
		errs = append(errs, r.use.Close())
	}
	return errors.Join(errs...)
}

// openWait bounds the time to open a home.
const openWait = 30 * time.Second

// open opens the parts of a home and creates missing ones. It continues when the context of the
// first caller ends, because others may wait for the same home.
func (t opener) open(ctx context.Context, id tenant.ID) (*parts, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openWait)
	defer cancel()
	r := &parts{id: id, marks: t.Marks, private: t.layout.of(id).private}
	err := t.fill(ctx, r)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.Wrap(fault.Unavailable, err, "the tenant's data did not open within %s", openWait).
			WithHint("the machine is busy: try again in a moment")
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// markUsed records the use of a tenant for Entry.Used, at most once in refreshEvery.
func (t opener) markUsed(r *parts) {
	now, last := time.Now(), r.used.Load()
	if since := now.UnixNano() - last; since >= 0 && since < int64(refreshEvery) || // the clock may have been put back
		!r.used.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	if err := os.Chtimes(r.use.Path(), now, now); err != nil {
		t.cfg.Log.Warn("record the use of a tenant", "tenant", r.id.String(), "error", err)
	}
}

// refresh updates the projections from the database, because a process may have ended between a
// commit and the update, and deletes expired data. Errors are logged only: a home whose
// projections cannot be written, for example on a full disk, is still usable.
func (t opener) refresh(ctx context.Context, r *parts) {
	if err := r.files.Prune(ctx, ResultsDir, r.settings.Results.Age, r.settings.Results.Bytes); err != nil {
		t.cfg.Log.Warn("prune old results", "tenant", r.id.String(), "error", err)
	}
	if err := r.skills.Refresh(ctx); err != nil {
		t.cfg.Log.Warn("refresh the projection of skills", "tenant", r.id.String(), "error", err)
	}
	if err := r.sessions.Refresh(ctx); err != nil {
		t.cfg.Log.Warn("refresh the projection of sessions", "tenant", r.id.String(), "error", err)
	}
	if err := r.recent.Prune(ctx); err != nil {
		t.cfg.Log.Warn("delete the old code of executions", "tenant", r.id.String(), "error", err)
	}
	for _, f := range t.cfg.Features {
		if f.Refresh == nil {
			continue
		}
		if err := f.Refresh(ctx, r.home()); err != nil {
			t.cfg.Log.Warn("refresh the data of a feature", "tenant", r.id.String(), "feature", f.Name, "error", err)
		}
	}
	if t.cfg.Process != nil {
		if err := r.journal.Runs().Sweep(ctx, time.Now().Add(-cmp.Or(t.cfg.KeepBackground, 24*time.Hour))); err != nil {
			t.cfg.Log.Warn("delete the results of background executions", "tenant", r.id.String(), "error", err)
		}
	}
	if r.vault != nil {
		if err := r.vault.Sweep(ctx); err != nil {
			t.cfg.Log.Warn("sweep the vault", "tenant", r.id.String(), "error", err)
		}
	}
	if r.approvals != nil {
		if err := r.approvals.Sweep(ctx); err != nil {
			t.cfg.Log.Warn("sweep approvals", "tenant", r.id.String(), "error", err)
		}
	}
}
