package quota

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// While code runs, a watch enforces the quota of a workspace over all of its
// sandboxes. A measurement walks the tree and adds deleted files that processes still
// have open or mapped. Measurements are slow in a large tree, so between them the
// watch reads only the free space of the file system, which is cheap. When that falls
// by as much as the workspace has left, it measures again, and if code may have moved
// files during the walk, once more with all these sandboxes frozen. If that
// measurement fails, the sandboxes are killed. fallocate is denied, so that space is
// allocated only by writing.

const (
	diskTick = 20 * time.Millisecond
	// Without suspicion, a measurement is due after diskPeriod or ten times the duration
	// of the last one, whichever is longer, up to diskRest.
	diskPeriod = 250 * time.Millisecond
	diskRest   = 2 * time.Second
	// diskGrace is the time that code runs before a measurement is due. Most executions
	// end earlier; with many workspaces each of them would be measured.
	diskGrace = 50 * time.Millisecond
	// diskQuick bounds an urgent measurement, diskFrozen one while code is frozen, which
	// happens at most once per diskThaw.
	diskQuick  = 100 * time.Millisecond
	diskFirst  = 2 * time.Second // of a measurement before code runs
	diskFrozen = 20 * time.Second
	diskThaw   = time.Second
	// diskStale is the age of the last measurement above which the next one is urgent, and
	// due at once.
	diskStale = 10 * time.Second
	// diskSlack is the amount that an execution may write below the reserve.
	diskSlack = 1 << 20
)

// disk is the usage of one workspace, and the open sandboxes that can write there.
type disk struct {
	cfg  Config
	dir  string
	kind int64 // of its file system, from statfs

	freezeMu sync.Mutex // held while sandboxes are frozen and while running sandboxes change

	mu      sync.Mutex
	members map[*Member]bool // value: code is running
	running int              // active Runs
	watch   *diskWatch       // while running > 0
	quota   space
	limits  space         // quota, or the usage if that is higher: such a workspace may shrink but not grow
	fresh   bool          // limits are unknown before the first measurement
	last    diskUse       // last complete measurement; zero time if none
	origin  diskUse       // first measurement since the first sandbox opened
	cost    time.Duration // of the last measurement
	frozen  time.Time     // when sandboxes were last frozen
}

type diskWatch struct {
	began      time.Time
	stop, done chan struct{}
}

// space is an amount of disk space.
type space struct{ bytes, files int64 }

func (s space) plus(o space) space  { return space{s.bytes + o.bytes, s.files + o.files} }
func (s space) minus(o space) space { return space{s.bytes - o.bytes, s.files - o.files} }

func (s space) atLeast(o space) space { return space{max(s.bytes, o.bytes), max(s.files, o.files)} }
func (s space) atMost(o space) space  { return space{min(s.bytes, o.bytes), min(s.files, o.files)} }

// diskUse is a measurement.
type diskUse struct {
	at        time.Time
	free      space // of the file system, read before the rest
	available int64 // bytes free for users other than root
	tree      space // files with a name
	deleted   space // files without a name that processes have open
	holders   []*Member
}

func (u diskUse) total() space { return u.tree.plus(u.deleted) }

func (d *disk) join(x *Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.members) == 0 {
		d.origin = diskUse{}
	}
	d.members[x] = false
}

// leave removes a sandbox that is being closed.
func (d *disk) leave(x *Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.members, x)
}

// begin starts watching x before its Run.
func (d *disk) begin(x *Member) {
	d.freezeMu.Lock()
	defer d.freezeMu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.members[x] = true
	if d.running++; d.running > 1 {
		return
	}
	d.quota = space{orUnlimited(x.limits.WorkspaceDisk), orUnlimited(x.limits.WorkspaceFiles)}
	d.limits, d.fresh = d.quota.atLeast(d.last.tree), d.last.at.IsZero()
	d.watch = &diskWatch{time.Now(), make(chan struct{}), make(chan struct{})}
	go d.loop(d.watch)
}

// orUnlimited returns a limit, or one that is never reached for 0.
func orUnlimited(limit int64) int64 {
	if limit == 0 {
		return 1 << 62
	}
	return limit
}

// finish stops watching x after its Run. It returns the limit that x exceeded, or "".
func (d *disk) finish(x *Member) string {
	d.freezeMu.Lock()
	d.mu.Lock()
	if _, open := d.members[x]; open {
		d.members[x] = false
	}
	d.running--
	watch, last := d.watch, d.running == 0
	d.mu.Unlock()
	d.freezeMu.Unlock()
	if last {
		close(watch.stop)
		<-watch.done
	}
	if x.limit == "" && d.suspicious(d.now()) {
		use, err := d.measureFor(diskQuick)
		x.limit = d.verdict(use, err, use.total())
	}
	return x.limit
}

// loop checks the limits until w stops.
func (d *disk) loop(w *diskWatch) {
	defer close(w.done)
	t := time.NewTicker(diskTick)
	defer t.Stop()
	var base *space // usage at the start
	for {
		if limit := d.check(w, &base); limit != "" {
			d.kill(limit)
		}
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
	}
}

// check returns the limit that is exceeded now, or "".
func (d *disk) check(w *diskWatch, base **space) string {
	suspicious := d.suspicious(d.now())
	if !suspicious && !d.due(w) {
		return ""
	}
	var use diskUse
	var err error
	if d.age() > diskStale || suspicious {
		use, err = d.measureFor(diskQuick)
		suspicious = suspicious || err != nil
	} else {
		use, err = d.measureUnlessSuspicious(w)
		suspicious = err != nil && d.suspicious(d.now())
	}
	if *base == nil && err == nil {
		total := use.total()
		*base = &total
	}
	from := use.total()
	if *base != nil {
		from = **base
	}
	if limit := d.verdict(use, err, from); limit != "" || !suspicious {
		return limit
	}
	return d.checkFrozen(from)
}

// measureUnlessSuspicious measures until space use becomes suspicious or w is to
// stop.
func (d *disk) measureUnlessSuspicious(w *diskWatch) (diskUse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), diskRest)
	var guard sync.WaitGroup
	defer guard.Wait()
	defer cancel()
	guard.Go(func() {
		t := time.NewTicker(diskTick)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.stop:
				cancel()
			case <-t.C:
				if d.suspicious(d.now()) {
					cancel()
				}
			}
		}
	})
	return d.measure(ctx)
}

// checkFrozen measures with all running sandboxes frozen.
func (d *disk) checkFrozen(from space) string {
	d.freezeMu.Lock()
	defer d.freezeMu.Unlock()
	d.mu.Lock()
	var running []*Member
	for x, runs := range d.members {
		if runs {
			running = append(running, x)
		}
	}
	late := time.Since(d.frozen) < diskThaw
	d.mu.Unlock()
	if late || len(running) == 0 {
		return ""
	}
	for _, x := range running {
		defer func() { _ = x.Thaw() }()
		if err := x.Freeze(); err != nil && err != sandbox.ErrEnded {
			return sandbox.LimitDisk
		}
	}
	use, err := d.measureFor(diskFrozen)
	d.mu.Lock()
	d.frozen = time.Now()
	d.mu.Unlock()
	if err != nil {
		d.cfg.Log.Warn("measuring a workspace under heavy writes failed; killing its executions", "error", err)
		return sandbox.LimitDisk
	}
	return d.verdict(use, nil, from)
}

// verdict returns the limit that a measurement exceeds, or "". With an error the
// usage is a lower bound.
func (d *disk) verdict(use diskUse, err error, from space) string {
	d.mu.Lock()
	if d.fresh && err == nil {
		d.limits, d.fresh = d.quota.atLeast(use.tree), false
	}
	limits, fresh := d.limits, d.fresh
	if err == nil {
		d.limits = d.quota.atLeast(limits.atMost(use.tree))
	}
	d.mu.Unlock()
	if fresh {
		return ""
	}
	switch total := use.total(); {
	case total.bytes > limits.bytes, total.files > limits.files:
		return sandbox.LimitDisk
	case err == nil && d.cfg.Reserve > 0 && use.available < d.cfg.Reserve && total.bytes > from.bytes+diskSlack:
		return sandbox.LimitHostDisk
	}
	return ""
}

// kill kills all sandboxes with running code, and all that hold deleted files.
func (d *disk) kill(limit string) {
	d.freezeMu.Lock()
	defer d.freezeMu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.last.holders {
		if _, open := d.members[x]; open {
			x.Kill()
		}
	}
	for x, runs := range d.members {
		if runs {
			x.limit = limit
			x.Kill()
		}
	}
	d.last.at = time.Time{} // their deleted files are freed
}

// due reports whether a measurement is due.
func (d *disk) due(w *diskWatch) bool {
	age := d.age()
	d.mu.Lock()
	defer d.mu.Unlock()
	return age > diskStale || time.Since(w.began) > diskGrace && age > min(max(diskPeriod, 10*d.cost), diskRest)
}

// age returns the age of the last measurement.
func (d *disk) age() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.last.at)
}

// suspicious reports whether so much space is gone since the last measurement
// that a limit may be exceeded.
func (d *disk) suspicious(now diskUse) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last.at.IsZero() {
		return false // the first measurement is due anyway
	}
	gone, left := d.last.free.minus(now.free), d.limits.minus(d.last.total())
	if reserve := d.cfg.Reserve; reserve > 0 {
		left.bytes = min(left.bytes, max(d.last.available-reserve, 16*diskSlack))
	}
	return gone.bytes > 0 && gone.bytes >= left.bytes || gone.files > 0 && gone.files >= left.files
}

// now reads the free space.
func (d *disk) now() diskUse {
	var st unix.Statfs_t
	if unix.Statfs(d.dir, &st) != nil {
		return diskUse{}
	}
	d.mu.Lock()
	d.kind = int64(st.Type)
	d.mu.Unlock()
	return diskUse{at: time.Now(), free: space{int64(st.Bfree) * st.Bsize, int64(st.Ffree)}, available: int64(st.Bavail) * st.Bsize}
}

// measureFor is measure with a timeout.
func (d *disk) measureFor(timeout time.Duration) (diskUse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.measure(ctx)
}

// measure measures until ctx ends. With an error it returns a lower bound.
func (d *disk) measure(ctx context.Context) (diskUse, error) {
	use := d.now()
	began := time.Now()
	d.mu.Lock()
	var members []*Member
	for x := range d.members {
		members = append(members, x)
	}
	origin, kind := d.origin, d.kind
	d.mu.Unlock()
	h, err := findDeletedFiles(ctx, d.dir, members)
	use.deleted, use.holders = h.open, h.holders
	if err == nil {
		use.tree.bytes, use.tree.files, err = d.cfg.Usage(ctx, d.dir)
	}
	if err == nil {
		err = d.addMapped(ctx, &use, origin, kind, members)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cost = time.Since(began)
	if err == nil {
		d.last = use
		if d.origin.at.IsZero() {
			d.origin = use
		}
	}
	return use, err
}
