//go:build amd64

package microvm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// diskWatch measures the workspace of one Run, and ends the guest above a limit. Only virtiofsd
// writes to it, which has a descriptor of each deleted file that the guest still uses.
type diskWatch struct {
	x       *box
	dir     string
	start   space
	limit   string // the exceeded limit; written by loop only
	stopped chan struct{}
	loop    sync.WaitGroup
}

type space struct{ bytes, files int64 }

const (
	diskInterval = 200 * time.Millisecond
	// diskShare is the part of the time that measurements may take: one in so many.
	diskShare = 10
	// slowMeasure bounds one measurement; its result is then a lower bound.
	slowMeasure = 2 * time.Second
)

// watchDisk starts a watch. It returns nil without limits.
func (x *box) watchDisk() *diskWatch {
	if x.b.cfg.Usage == nil || x.limits.WorkspaceDisk == 0 && x.limits.WorkspaceFiles == 0 && x.b.cfg.Reserve == 0 {
		return nil
	}
	d := &diskWatch{x: x, dir: x.workspace, stopped: make(chan struct{})}
	d.start = d.measure()
	d.loop.Go(d.run)
	return d
}

func (d *diskWatch) run() {
	for wait := diskInterval; ; {
		select {
		case <-d.stopped:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if d.limit = d.exceeded(); d.limit != "" {
			d.x.vm.kill()
			return
		}
		wait = max(diskInterval, diskShare*time.Since(began))
	}
}

// finish ends the watch and returns the limit that the Run exceeded, or "".
func (d *diskWatch) finish() string {
	if d == nil {
		return ""
	}
	close(d.stopped)
	d.loop.Wait()
	if d.limit == "" {
		d.limit = d.exceeded()
	}
	return d.limit
}

// exceeded returns the limit that the workspace exceeds, if it has grown since the start.
func (d *diskWatch) exceeded() string {
	now, l := d.measure(), d.x.limits
	grown := now.bytes > d.start.bytes
	switch {
	case l.WorkspaceDisk > 0 && now.bytes > l.WorkspaceDisk && grown,
		l.WorkspaceFiles > 0 && now.files > l.WorkspaceFiles && now.files > d.start.files:
		return sandbox.LimitDisk
	case grown && d.free() < d.x.b.cfg.Reserve:
		return sandbox.LimitHostDisk
	}
	return ""
}

func (d *diskWatch) free() int64 {
	var fs unix.Statfs_t
	if unix.Statfs(d.dir, &fs) != nil {
		return 0
	}
	return int64(fs.Bavail) * fs.Bsize
}

func (d *diskWatch) measure() space {
	ctx, cancel := context.WithTimeout(context.Background(), slowMeasure)
	defer cancel()
	bytes, files, _ := d.x.b.cfg.Usage(ctx, d.dir)
	held := d.deleted()
	return space{bytes + held.bytes, files + held.files}
}

// deleted returns the space of deleted files that are open.
func (d *diskWatch) deleted() (s space) {
	open := fmt.Sprintf("/proc/%d/fd", d.x.vm.sharing.cmd.Process.Pid)
	entries, _ := os.ReadDir(open)
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(open, e.Name()))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if st := info.Sys().(*syscall.Stat_t); st.Nlink == 0 {
			s.bytes += st.Blocks * 512
			s.files++
		}
	}
	return s
}
