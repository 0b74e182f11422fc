package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// probeInterval is the minimum time between two probes of the disk.
const probeInterval = time.Second

// diskProbe finds out whether something can be stored: a disk may be full or fail, or a file system
// become read-only, while the daemon runs.
type diskProbe struct {
	dirs []string

	mu  sync.Mutex
	at  time.Time
	err error // of the last probe
}

func (p *diskProbe) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < probeInterval {
		return p.err
	}
	var err error
	for _, dir := range p.dirs {
		err = errors.Join(err, durable.Probe(dir))
	}
	p.at, p.err = time.Now(), unwritable(err)
	return p.err
}

// diskTimeout is how long requests wait for the disk.
const diskTimeout = 2 * time.Second

// bounded runs a check of the disk in the background, one at a time: a disk that hangs ends no system
// call. Requests at the same time share one.
type bounded struct {
	mu      sync.Mutex
	running *boundedRun // nil if none is
}

type boundedRun struct {
	began time.Time
	done  chan struct{}
	err   error // once done is closed
}

// run returns the result of check, which goes starts.
func (b *bounded) run(ctx context.Context, goes func(func()) bool, check func() error) error {
	b.mu.Lock()
	a := b.running
	if a == nil {
		a = &boundedRun{began: time.Now(), done: make(chan struct{})}
		b.running = a
		if !goes(func() { b.complete(a, check()) }) {
			b.running = nil
			b.mu.Unlock()
			return fault.New(fault.Unavailable, "Sandpiper is stopping")
		}
	}
	b.mu.Unlock()
	late := time.NewTimer(time.Until(a.began.Add(diskTimeout)))
	defer late.Stop()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fault.New(fault.Unavailable, "the disk of the data directory does not answer").
			WithHint("check the disk or the server of the file system")
	}
}

func (b *bounded) complete(a *boundedRun, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running, a.err = nil, err
	close(a.done)
}

// unwritable returns the fault of a directory in which nothing can be stored. It names no path.
func unwritable(err error) error {
	why, _ := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil:
		return nil
	case why == syscall.ENOSPC || why == syscall.EDQUOT:
		return fault.Wrap(fault.Exhausted, err, "the disk that holds the data directory is full").WithHint("free disk space")
	case why == syscall.EROFS || why == syscall.EACCES || why == syscall.EPERM:
		return fault.Wrap(fault.Unavailable, err, "the data directory is read-only").
			WithHint("make it writable for the user that runs Sandpiper")
	}
	return fault.Wrap(fault.Unavailable, err, "nothing can be written to the data directory: %s", why).WithHint("check its disk")
}

// chainProbe verifies the audit log when it has changed.
type chainProbe struct {
	dir  dataDir
	log  *slog.Logger
	goes func(func()) bool // runs a function in the background

	mu      sync.Mutex
	running bool
	state   string // of the files when they were last verified
	ended   time.Time
	took    time.Duration
	err     error // of the last verification
}

const (
	// maxWaitBytes is the size of an audit log up to which a probe waits for its verification.
	maxWaitBytes = 8 << 20
	// idleRatio is the time between two verifications, as a multiple of the duration of one.
	idleRatio = 100
)

func (p *chainProbe) check() error {
	state, size, err := filesState(p.dir.sub("audit"))
	if err != nil {
		return unwritable(err)
	}
	p.mu.Lock()
	if p.running || state == p.state || time.Since(p.ended) < idleRatio*p.took {
		defer p.mu.Unlock()
		return p.err
	}
	p.running = true
	p.mu.Unlock()
	if size <= maxWaitBytes || !p.goes(func() { p.verify(state) }) {
		p.verify(state)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *chainProbe) verify(state string) {
	began := time.Now()
	var r audit.Report
	cfg, err := auditConfig(p.dir, false)
	if err == nil {
		r, err = audit.Verify(context.Background(), cfg)
	}
	if err == nil && r.Problem != nil {
		err = damagedAudit(r.Problem)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.err == nil {
		p.log.Error("the audit log cannot be verified", "error", err)
	}
	if err != nil && r.Problem == nil { // nothing is proved: the next probe verifies it again
		state = ""
	}
	p.running, p.state, p.ended, p.took, p.err = false, state, time.Now(), time.Since(began), err
}

// damagedAudit returns the fault of a damaged audit log.
func damagedAudit(p *audit.Problem) error {
	return fault.New(fault.Unavailable, "the audit log is damaged (%s)", p.Kind).
		WithHint("sandpiper audit verify names the line; docs/audit.md describes how to start over")
}

// filesState identifies the content of the files of a directory, and returns their size.
func filesState(dir string) (state string, size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the next line of the log creates it
		return "", 0, err
	}
	var b strings.Builder
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil { // deleted by the retention
			continue
		}
		size += fi.Size()
		fmt.Fprintln(&b, e.Name(), fi.Size(), fi.ModTime().UnixNano())
	}
	return b.String(), size, nil
}
