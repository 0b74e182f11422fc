// Package home is the one way to a tenant's data. Acquire turns a tenant.ID
// into an open Home; all access lies between that and Release. Nothing else
// joins a path from a tenant's id.
//
// A data directory may be shared by any number of daemons and command lines, so
// nothing here is decided from memory: what exists is looked up on disk, and
// what must not be done twice at once is done under a file lock. A Tenants and
// its Homes are safe for concurrent use.
//
// The package opens and closes; what may be done with a home, and what a tenant
// is allowed, is decided above it.
package home

import (
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
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Config of a Tenants.
type Config struct {
	Root     string          // the data directory; made if there is none. Required
	Quota    workspace.Quota // of each workspace, checked before the host writes; zero means no bound
	Results  Results         // how long results are kept; zero means for ever
	Idle     int             // homes kept open that nobody uses; 0 means 64, negative means none
	FirstUID int             // as root, the first of the host uids given to tenants; 0 means 200000
	UIDs     int             // how many there are; 0 means 65536
	Modules  string          // key of the generated modules that everybody sees; "" means none
	Log      *slog.Logger    // nil means discard

	// Vault makes the vault of a tenant, over its database; nil means that homes
	// have none.
	Vault func(tenant.ID, *store.DB) *vault.Vault
	// Redact returns a text of a tenant's session as code of its other sessions may
	// read it; nil leaves it.
	Redact func(ctx context.Context, id tenant.ID, v *vault.Vault, session, text string) (string, error)
	// Process is the one that runs what homes keep of executions; nil means that
	// they keep nothing of them.
	Process *journal.Process
	// Approvals makes the store of a tenant's approvals, likewise.
	Approvals func(tenant.ID, *store.DB) (*approval.Store, error)
	// RecordTokens is told of tokens as a meter is; nil means that nobody asks.
	RecordTokens func(inside bool, tokens int64)
}

func (c Config) withDefaults() Config {
	if c.Idle == 0 {
		c.Idle = 64
	}
	if c.FirstUID == 0 {
		c.FirstUID = 200_000
	}
	if c.UIDs == 0 {
		c.UIDs = 65_536
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Results bounds what executions leave in a workspace beneath ResultsDir.
type Results struct {
	Age   time.Duration // after which a file is removed; 0 means never
	Bytes int64         // beyond which the oldest files are removed; 0 means no bound
}

// ResultsDir is the directory of a workspace for results that are too large for
// an answer.
const ResultsDir = ".results"

// Homes gives out homes.
type Homes struct {
	cfg    Config
	layout layout

	mu       sync.Mutex
	homes    map[tenant.ID]*shared
	unopened map[tenant.ID]bool // homes that could not be opened last
	checked  checked
	idle     []*shared // homes that nobody uses, longest idle first
	closed   bool
	tasks    sync.WaitGroup // refreshes
}

// shared is a home that is open, or being opened, and who uses it.
type shared struct {
	id     tenant.ID
	users  int
	opened chan struct{} // closed when rooms or err is there
	rooms  *rooms
	err    error

	refreshed time.Time // when rooms were last refreshed
}

// Open opens a data directory, and makes what is missing in it. One that
// belongs to somebody else, was made by a newer Sandpiper or holds something
// else is refused.
func Open(ctx context.Context, cfg Config) (*Homes, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	l, err := newLayout(cfg.Root)
	if err != nil {
		return nil, err
	}
	if err := l.prepare(); err != nil {
		return nil, err
	}
	t := &Homes{cfg: cfg, layout: l, homes: make(map[tenant.ID]*shared), unopened: map[tenant.ID]bool{}, checked: checked{}}
	if cfg.Modules != "" {
		dir, _ := t.Modules()
		if err := mkdir(dir, 0o755); err != nil {
			return nil, dirFault(err)
		}
	}
	return t, nil
}

// Roots names the directories in which the mounts of homes lie, by the keys that
// Home.Mounts uses: a sandbox backend is configured with them.
func (t *Homes) Roots() map[string]string {
	return map[string]string{
		rootWorkspaces: t.layout.workspaces(), rootSkills: t.layout.views(rootSkills), rootSessions: t.layout.views(rootSessions),
		rootServers: t.layout.views(rootServers),
	}
}

// Modules returns where the generated modules lie that code sees as
// /workspace/servers, and the lock of who writes them.
func (t *Homes) Modules() (dir, lock string) {
	dir = filepath.Join(t.layout.views(rootServers), t.cfg.Modules)
	return dir, dir + ".lock"
}

// CheckDisk returns an error if the disk has so little free space that nothing is
// written to workspaces.
func (t *Homes) CheckDisk() error {
	f, err := workspace.Open(workspace.Config{Dir: t.layout.workspaces(), Quota: t.cfg.Quota})
	if err != nil {
		return err
	}
	defer f.Close()
	return f.CheckReserve(0)
}

// Exists reports whether there is data of a tenant.
func (t *Homes) Exists(id tenant.ID) (bool, error) {
	_, err := os.Lstat(t.layout.of(id).private)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, dirFault(err)
	}
	return true, nil
}

// Acquire opens the home of a tenant; of a new one it makes it. What it returns
// has to be released.
func (t *Homes) Acquire(ctx context.Context, id tenant.ID) (*Home, error) {
	if id.IsZero() {
		return nil, fault.New(fault.Invalid, "no tenant was named")
	}
	s, first, err := t.enter(id)
	if err != nil {
		return nil, err
	}
	if first {
		s.rooms, s.err = t.open(ctx, id)
		t.noteOpened(id, s.err)
		s.refreshed = time.Now()
		close(s.opened)
	}
	select {
	case <-s.opened:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), t.leave(s))
	}
	if s.err != nil {
		return nil, errors.Join(s.err, t.leave(s))
	}
	t.refreshSometimes(s)
	return t.home(s), nil
}

// home is one use of s, which is counted already.
func (t *Homes) home(s *shared) *Home {
	return &Home{
		Workspace: s.rooms.files, Skills: s.rooms.skills, Sessions: s.rooms.sessions,
		Journal: s.rooms.journal, Shapes: s.rooms.shapes, Usage: s.rooms.meter, Vault: s.rooms.vault,
		Approvals: s.rooms.approvals, rooms: s.rooms, modules: t.cfg.Modules,
		release: sync.OnceValue(func() error { return t.leave(s) }),
		share: func() *Home {
			t.mu.Lock()
			defer t.mu.Unlock()
			s.users++
			return t.home(s)
		},
	}
}

// enter counts one more user of a home; the first opens it.
func (t *Homes) enter(id tenant.ID) (s *shared, first bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, fault.New(fault.Unavailable, "the data directory is being closed")
	}
	s = t.homes[id]
	if s == nil {
		s, first = &shared{id: id, opened: make(chan struct{})}, true
		t.homes[id] = s
	}
	if s.users++; s.users == 1 {
		t.idle = without(t.idle, s)
	}
	return s, first, nil
}

// leave counts one user less. A home without users stays open for the next one,
// unless it could not be opened, there are too many, or all is closed.
func (t *Homes) leave(s *shared) error {
	t.mu.Lock()
	s.users--
	var out []*shared
	if s.failed() && t.homes[s.id] == s {
		delete(t.homes, s.id) // others who wait for it still hold s
	}
	if s.users == 0 && t.homes[s.id] == s {
		t.idle = append(t.idle, s)
		keep := max(t.cfg.Idle, 0)
		if t.closed {
			keep = 0
		}
		out = t.evict(keep)
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

// refreshEvery is how long a home in use may differ from its database after
// somebody died between saving and showing. What such a one saved was never
// acknowledged.
const refreshEvery = 10 * time.Second

// refreshSometimes refreshes a home beside its use, if that is due: it costs
// about as much as all else that a small call needs from the daemon.
func (t *Homes) refreshSometimes(s *shared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || time.Since(s.refreshed) < refreshEvery {
		return
	}
	s.refreshed = time.Now()
	s.users++
	t.tasks.Go(func() {
		t.refresh(context.Background(), s.rooms)
		if err := t.leave(s); err != nil {
			t.cfg.Log.Warn("closing a home", "tenant", s.id.String(), "error", err)
		}
	})
}

// evict takes out all idle homes but the last ones. The caller holds the lock,
// and closes them without it.
func (t *Homes) evict(keep int) []*shared {
	n := max(len(t.idle)-keep, 0)
	out := t.idle[:n:n]
	t.idle = t.idle[n:]
	for _, s := range out {
		delete(t.homes, s.id)
	}
	return out
}

// Close closes the homes that nobody uses, and each other one when it is
// released. Acquire fails after it. It is idempotent.
func (t *Homes) Close() error {
	t.mu.Lock()
	t.closed = true
	out := t.evict(0)
	t.mu.Unlock()
	err := closeAll(out)
	t.tasks.Wait()
	return err
}

func closeAll(all []*shared) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.rooms.close())
	}
	return errors.Join(errs...)
}

func without(all []*shared, one *shared) []*shared {
	var rest []*shared
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}
