package quota

import (
	"context"
	"log/slog"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Config of a Watch.
type Config struct {
	// Usage measures a directory: bytes on disk and number of names. With an error it
	// returns a lower bound. Required.
	Usage func(ctx context.Context, dir string) (bytes, files int64, err error)
	// Reserve is the free disk space below which code that adds to its workspace is
	// killed; 0 means none.
	Reserve int64
	// Log receives failed measurements. Required.
	Log *slog.Logger
}

// Watch enforces the quotas of workspaces. A nil Watch enforces none.
type Watch struct {
	cfg Config

	mu    sync.Mutex
	disks map[string]*disk // by directory of a workspace
}

// New returns a watch.
func New(cfg Config) *Watch { return &Watch{cfg: cfg, disks: map[string]*disk{}} }

// Sandbox can write to a workspace.
type Sandbox interface {
	sandbox.Freezer
	// Processes returns the process ids that may hold deleted files of the workspace.
	Processes() []int
	HasExited() bool
	Kill()
}

// Member is an open sandbox that the watch knows. A nil Member has no limits.
type Member struct {
	Sandbox
	disk   *disk
	limits sandbox.Limits
	limit  string // the limit that it exceeded; set before the kill
}

// Join adds a sandbox to the watch of the workspace in dir. It returns nil if there is no limit
// to enforce.
func (w *Watch) Join(dir string, x Sandbox, l sandbox.Limits) *Member {
	if w == nil || l.WorkspaceDisk == 0 && l.WorkspaceFiles == 0 && w.cfg.Reserve == 0 {
		return nil
	}
	m := &Member{Sandbox: x, limits: l, disk: w.diskOf(dir)}
	m.disk.join(m)
	return m
}

// Leave removes a sandbox that is being closed.
func (m *Member) Leave() {
	if m != nil {
		m.disk.leave(m)
	}
}

// Prepare measures the workspace, for a bounded time, if it has not been measured. The quota does not
// apply to the files that a workspace has at the first measurement, which should not be slower than the code.
func (m *Member) Prepare() {
	if m == nil {
		return
	}
	m.disk.mu.Lock()
	measured := !m.disk.last.at.IsZero()
	m.disk.mu.Unlock()
	if !measured {
		_, _ = m.disk.measureFor(diskFirst)
	}
}

// Begin starts watching a sandbox before its Run.
func (m *Member) Begin() {
	if m != nil {
		m.disk.begin(m)
	}
}

// Finish stops watching a sandbox after its Run. It returns the limit that it exceeded, or "".
func (m *Member) Finish() string {
	if m == nil {
		return ""
	}
	return m.disk.finish(m)
}

// diskOf returns the disk of a directory. Disks are kept, since the next execution
// starts from the last measurement.
func (w *Watch) diskOf(dir string) *disk {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.disks[dir]
	if d == nil {
		d = &disk{cfg: w.cfg, dir: dir, members: map[*Member]bool{}}
		w.disks[dir] = d
	}
	return d
}
