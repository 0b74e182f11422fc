// Package home gives access to a tenant's data. Acquire turns a tenant.ID into an open Home,
// which Release closes. No other package builds paths from tenant ids.
//
// Any number of daemons and commands may share a data directory, so state is read from disk and
// exclusive operations take a file lock. A Homes and its Home values are safe for concurrent use.
//
// The package opens and closes data. What a tenant may do is decided by its callers.
package home

import (
	"container/list"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Config of a Homes.
type Config struct {
	Root string // the data directory; created if missing. Required
	// Settings returns the settings of a tenant, whose stored tier is given; nil means that
	// Quota, Results and Modules are those of all tenants.
	Settings func(id tenant.ID, tier string) Settings
	Quota    workspace.Quota // of each workspace, checked before the host writes; zero means no limit
	Results  Results         // retention of result files; zero means unlimited
	// unused homes that stay open while descriptors are free; 0 means as many as take a quarter of the descriptors or
	// a sixteenth of the memory, negative means none
	Idle     int
	FirstUID int          // the first host uid for tenants
	UIDs     int          // number of host uids; tenants share that of the daemon if it is not positive
	Modules  string       // key of the generated modules of all tenants; "" means none
	Log      *slog.Logger // nil means discard

	// Vault creates the vault of a tenant; nil means none.
	Vault func(tenant.ID, *store.DB) *vault.Vault
	// Redact replaces private values in a text of a session, for code of other sessions;
	// nil leaves the text unchanged.
	Redact   func(ctx context.Context, id tenant.ID, v *vault.Vault, session, text string) (string, error)
	Features []Feature
	// Process owns the records of executions; nil means that executions are not recorded.
	Process *journal.Process
	// Approvals creates the store of a tenant's approvals; nil means none.
	Approvals func(tenant.ID, *store.DB) (*approval.Store, error)
	// RecentCode is how long the code of successful executions is kept; 0 means 24 hours, negative
	// keeps none.
	RecentCode time.Duration
	// Learn is how long it is kept which tools were called after a search, for later searches; 0
	// means that it is not recorded.
	Learn time.Duration
	// KeepBackground is how long the results of background executions are kept; 0 means 24 hours.
	KeepBackground time.Duration
	// RecordTokens is called with each number of tokens that is counted, for metrics; inside
	// means that code used them in tool calls. nil means no call.
	RecordTokens func(inside bool, tokens int64)
	// RecordRefusal is called with the name of a quota for each refusal, for metrics; nil means no
	// call.
	RecordRefusal func(tenant, quota string)
}

func (c Config) withDefaults() Config {
	if c.Idle == 0 {
		c.Idle = unusedHomes(descriptorLimit(), memory.Machine())
	}
	if c.RecordRefusal == nil {
		c.RecordRefusal = func(string, string) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Results limits the files below ResultsDir in a workspace.
type Results struct {
	// after which a file is removed; 0 means never
	Age time.Duration `key:"results_age,tenant" form:"age" default:"7d"`
	// total size above which the oldest files are removed; 0 means no limit
	Bytes int64 `key:"results_max_mb,tenant" form:"megabytes" range:"1 16777216" default:"512"`
}

// ResultsDir is the directory of a workspace for results that are too large to return.
const ResultsDir = ".results"

// Homes opens and shares the homes of a data directory.
type Homes struct {
	Directory
	pool
}

// Directory is a data directory on disk, whatever of it is open.
type Directory struct{ layout layout }

// opener opens homes of a data directory.
type opener struct {
	Directory
	cfg Config
}

// pool contains the open homes.
type pool struct {
	opener

	mu       sync.Mutex
	homes    map[tenant.ID]*shared
	retired  map[*shared]bool   // homes that are still used, and that Acquire returns no more
	unopened map[tenant.ID]bool // homes whose last open failed
	checked  checked
	idle     list.List // unused homes, *shared, longest idle first
	closed   bool
	stop     chan struct{}  // closed by Close
	tasks    sync.WaitGroup // background refreshes, watch and its goroutines
}

// shared is an open or opening home with its reference count.
type shared struct {
	id     tenant.ID
	users  int
	opened chan struct{} // closed when parts or err is set
	parts  *parts
	err    error

	idle      *list.Element // in Homes.idle; nil while the home is used
	released  time.Time     // time when it became idle
	refreshed time.Time     // time of the last refresh
	tierRead  time.Time     // time when the tier was last read; zero until the home is open
}

// Open opens a data directory and creates what is missing in it. It refuses a directory of
// another user, of a newer version, or with other content.
func Open(ctx context.Context, cfg Config) (*Homes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	l, err := newLayout(cfg.Root)
	if err != nil {
		return nil, err
	}
	l.features = cfg.Features
	if err := (preparation{l}).prepare(); err != nil {
		return nil, err
	}
	dir := Directory{l}
	t := &Homes{
		Directory: dir,
		pool: pool{
			opener: opener{dir, cfg}, homes: make(map[tenant.ID]*shared), retired: map[*shared]bool{},
			unopened: map[tenant.ID]bool{}, checked: checked{}, stop: make(chan struct{}),
		},
	}
	return t, t.MakeModules(cfg.Modules)
}

// Roots returns the parent directories of all mounts, by the keys that Home.Mounts uses, for the
// configuration of a sandbox backend.
func (t Directory) Roots() map[string]string {
	return map[string]string{
		rootWorkspaces: t.layout.workspaces(), rootSkills: t.layout.projections(rootSkills),
		rootSessions: t.layout.projections(rootSessions),
		rootServers:  t.layout.projections(rootServers),
	}
}

// Modules returns the directory of the generated modules with a key, which code sees as
// /workspace/servers, and the lock file for writing it.
func (t Directory) Modules(key string) (dir, lock string) {
	dir = filepath.Join(t.layout.projections(rootServers), key)
	return dir, dir + ".lock"
}

// MakeModules creates the directory of the generated modules with a key.
func (t Directory) MakeModules(key string) error {
	if key == "" {
		return nil
	}
	dir, _ := t.Modules(key)
	return dirFault(mkdir(dir, 0o755))
}

// CheckDisk returns an error if free disk space is below the reserve.
func (t *Homes) CheckDisk() error {
	f, err := workspace.Open(workspace.Config{Dir: t.layout.workspaces(), Quota: t.cfg.Quota})
	if err != nil {
		return err
	}
	defer f.Close()
	return f.CheckReserve(0)
}

// Exists reports whether a tenant has data.
func (t Directory) Exists(id tenant.ID) (bool, error) {
	_, err := os.Lstat(t.layout.of(id).private)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, dirFault(err)
	}
	return true, nil
}

// Acquire opens the home of a tenant and creates it if it does not exist. The caller releases
// it. A suspended tenant is refused. It is a use of the tenant, see Entry.Used.
func (t *Homes) Acquire(ctx context.Context, id tenant.ID) (*Home, error) {
	h, err := t.acquireActive(ctx, id)
	if err == nil {
		t.markUsed(h.parts)
	}
	return h, err
}

// acquireActive is Acquire without a use of the tenant.
func (t *Homes) acquireActive(ctx context.Context, id tenant.ID) (*Home, error) {
	p := t.layout.of(id)
	if err := p.checkActive(id); err != nil {
		return nil, err
	}
	h, first, err := t.acquire(ctx, id)
	if err != nil || !first {
		return h, err
	}
	// The tenant may have been suspended after the first check, when watch could not see this home.
	if err := p.checkActive(id); err != nil {
		t.retireSuspended()
		return nil, errors.Join(err, h.Release(ctx))
	}
	return h, nil
}

// AcquireSuspended is Acquire for commands of the operator, which may open a suspended tenant. It is
// not a use of the tenant.
func (t *Homes) AcquireSuspended(ctx context.Context, id tenant.ID) (*Home, error) {
	h, _, err := t.acquire(ctx, id)
	return h, err
}

// acquire opens a home, and reports whether this call opened it.
func (t *pool) acquire(ctx context.Context, id tenant.ID) (h *Home, first bool, err error) {
	if id.IsZero() {
		return nil, false, fault.New(fault.Invalid, "tenant id is missing")
	}
	if err := t.retireChanged(id); err != nil {
		return nil, false, err
	}
	s, first, err := t.addRef(id)
	if err != nil {
		return nil, false, err
	}
	if first {
		closeIdleIfShort(t)
		s.parts, s.err = t.open(ctx, id)
		t.noteOpened(id, s.err)
		t.mu.Lock()
		s.refreshed = time.Now()
		if s.err == nil {
			s.tierRead = s.refreshed
		}
		t.mu.Unlock()
		close(s.opened)
	}
	select {
	case <-s.opened:
	case <-ctx.Done():
		return nil, false, errors.Join(context.Cause(ctx), t.removeRef(s))
	}
	if s.err != nil {
		return nil, false, errors.Join(s.err, t.removeRef(s))
	}
	t.mu.Lock()
	if s.users > 1 { // otherwise after the use: during it, this would need another connection to the database
		t.refreshSometimes(s)
	}
	t.mu.Unlock()
	return t.home(s), first, nil
}

// home returns a Home for a use of s that is already counted.
func (t *pool) home(s *shared) *Home {
	h := s.parts.home()
	h.release = sync.OnceValue(func() error { return t.removeRef(s) })
	h.share = func() *Home {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.users++
		return t.home(s)
	}
	return h
}

// addRef adds a reference to a home. The first caller opens it.
func (t *pool) addRef(id tenant.ID) (s *shared, first bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, fault.New(fault.Unavailable, "the data directory is closed")
	}
	s = t.homes[id]
	if s == nil {
		s, first = &shared{id: id, opened: make(chan struct{})}, true
		t.homes[id] = s
	}
	if s.users++; s.users == 1 {
		notIdle(t, s)
	}
	return s, first, nil
}

// removeRef removes a reference. An unused home stays open, unless opening failed, too many are
// idle, it was retired, or t is closed.
func (t *pool) removeRef(s *shared) error {
	t.mu.Lock()
	if s.users--; s.users == 0 {
		delete(t.retired, s)
	}
	var out []*shared
	if s.failed() && t.homes[s.id] == s {
		delete(t.homes, s.id) // other waiters still hold s
	}
	if s.users == 0 && t.homes[s.id] == s {
		t.refreshSometimes(s)
	}
	if s.users == 0 && t.homes[s.id] == s {
		s.idle, s.released = t.idle.PushBack(s), time.Now()
		keep := max(t.cfg.Idle, 0)
		if t.closed {
			keep = 0
		}
		if out = t.evict(keep); s.idle != nil {
			s.parts.files.Close() // opens again when it is used
		}
	} else if s.users == 0 && s.parts != nil {
		out = append(out, s)
	}
	t.mu.Unlock()
	return closeAll(out)
}

func (s *shared) failed() bool {
	select {
	case <-s.opened:
		return s.err != nil
	default:
		return false
	}
}

// refreshEvery bounds how long the projections of an open home may lag behind its database after
// a process ended between its commit and its update of the projection. Such a save was never
// acknowledged.
const refreshEvery = 10 * time.Second

// refreshSometimes refreshes a home in the background, if that is due. A refresh costs about as
// much as the rest of a small call in the daemon. The caller holds the lock.
func (t *pool) refreshSometimes(s *shared) {
	if t.closed || time.Since(s.refreshed) < refreshEvery {
		return
	}
	s.refreshed = time.Now()
	s.users++
	t.tasks.Go(func() {
		t.refresh(context.Background(), s.parts)
		if err := t.removeRef(s); err != nil {
			t.cfg.Log.Warn("close home", "tenant", s.id.String(), "error", err)
		}
	})
}

// Close closes the unused homes, and each other one when it is released. Later calls of Acquire
// fail. It is idempotent.
func (t *Homes) Close() error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.stop)
	}
	out := t.evict(0)
	t.mu.Unlock()
	err := closeAll(out)
	t.tasks.Wait()
	return err
}
