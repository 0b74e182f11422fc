package process

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The quota of a workspace is enforced while code runs by a watch over all
// sandboxes of that workspace. A measurement walks the tree and adds what only
// processes hold: deleted files that are open or mapped. Between measurements,
// which cost time in a large tree, the watch compares the free space of the file
// system, which costs nothing: as soon as so much is gone as the workspace has
// left it measures again, and if code may have moved files out of its way, once
// more while all of these sandboxes are frozen. What cannot be measured then is
// ended. fallocate is denied, so that space is taken by writing only.

const (
	diskTick = 20 * time.Millisecond
	// A measurement while nothing points to a fault is due after diskPeriod, or ten
	// times as long as the last one took, up to diskRest.
	diskPeriod = 250 * time.Millisecond
	diskRest   = 2 * time.Second
	// diskQuick bounds a measurement that cannot wait, diskStill one while code is
	// frozen, which happens at most once in diskThaw.
	diskQuick = 100 * time.Millisecond
	diskStill = 20 * time.Second
	diskThaw  = time.Second
	// diskStale is how old the last measurement may be for an execution to end
	// without another one.
	diskStale = 10 * time.Second
	// diskSlack is what an execution may write below the reserve before it is ended.
	diskSlack = 1 << 20
)

// disk is the usage of one workspace, and the open sandboxes that can write there.
type disk struct {
	b    *Backend
	dir  string
	kind int64 // of its file system, as statfs says

	still sync.Mutex // held while running sandboxes are frozen, and to change which are

	mu      sync.Mutex
	boxes   map[*box]bool // whether it runs
	running int           // begun and not finished
	watch   *diskWatch    // while any is
	quota   space
	limits  space         // quota, or what was used when that was more: such a workspace may shrink and not grow
	fresh   bool          // limits are not known before the first measurement
	last    diskUse       // the last complete measurement; its time is zero if there is none
	origin  diskUse       // the first one since there was no sandbox
	cost    time.Duration // of the last measurement
	frozen  time.Time     // when sandboxes were last frozen
}

type diskWatch struct{ stop, done chan struct{} }

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
	available int64 // bytes that others than root may take
	tree      space // what has a name
	held      space // what only processes hold
	holders   []*box
}

func (u diskUse) total() space { return u.tree.plus(u.held) }

// joinDisk adds a sandbox to the watch over its workspace. It returns nil where
// none is needed.
func (b *Backend) joinDisk(x *box, spec sandbox.Spec) *disk {
	if b.cfg.Usage == nil || contains(b.cfg.Disabled, "disk") || spec.Limits.WorkspaceDisk == 0 && spec.Limits.WorkspaceFiles == 0 && b.cfg.Reserve == 0 {
		return nil
	}
	for _, m := range spec.Mounts {
		if m.Target == "/workspace" && !m.ReadOnly {
			return b.diskOf(filepath.Join(b.cfg.Roots[m.Root], m.Name)).join(x)
		}
	}
	return nil
}

// diskOf returns the disk of a directory. Disks are kept, since a next execution
// goes by what the last one left.
func (b *Backend) diskOf(dir string) *disk {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.disks[dir]
	if d == nil {
		if b.disks == nil {
			b.disks = map[string]*disk{}
		}
		d = &disk{b: b, dir: dir, boxes: map[*box]bool{}}
		b.disks[dir] = d
	}
	return d
}

func (d *disk) join(x *box) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.boxes) == 0 {
		d.origin = diskUse{}
	}
	d.boxes[x] = false
	return d
}

// leave removes a sandbox that is being closed.
func (d *disk) leave(x *box) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.boxes, x)
}

// begin is called before code runs in x.
func (d *disk) begin(x *box) {
	if d == nil {
		return
	}
	d.still.Lock()
	defer d.still.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boxes[x] = true
	if d.running++; d.running > 1 {
		return
	}
	d.quota = space{orNone(x.limits.WorkspaceDisk), orNone(x.limits.WorkspaceFiles)}
	d.limits, d.fresh = d.quota.atLeast(d.last.tree), d.last.at.IsZero()
	d.watch = &diskWatch{make(chan struct{}), make(chan struct{})}
	go d.loop(d.watch)
}

// orNone returns a limit, or one that is never reached for 0.
func orNone(limit int64) int64 {
	if limit == 0 {
		return 1 << 62
	}
	return limit
}

// finish is called after code ran in x. It returns the limit that it exceeded,
// or "".
func (d *disk) finish(x *box) string {
	if d == nil {
		return ""
	}
	d.still.Lock()
	d.mu.Lock()
	if _, open := d.boxes[x]; open {
		d.boxes[x] = false
	}
	d.running--
	watch, last := d.watch, d.running == 0
	d.mu.Unlock()
	d.still.Unlock()
	if last {
		close(watch.stop)
		<-watch.done
	}
	if x.overDisk == "" && d.suspicious(d.now()) {
		use, err := d.measureFor(diskQuick)
		x.overDisk = d.verdict(use, err, use.total())
	}
	return x.overDisk
}

// loop watches until w stops.
func (d *disk) loop(w *diskWatch) {
	defer close(w.done)
	t := time.NewTicker(diskTick)
	defer t.Stop()
	var base *space // what was used when it began
	for {
		if limit := d.look(w, &base); limit != "" {
			d.end(limit)
		}
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
	}
}

// look returns the limit that is exceeded now, or "".
func (d *disk) look(w *diskWatch, base **space) string {
	suspicious := d.suspicious(d.now())
	if !suspicious && !d.due() {
		return ""
	}
	var use diskUse
	var err error
	if d.age() > diskStale || suspicious {
		use, err = d.measureFor(diskQuick)
		suspicious = suspicious || err != nil
	} else {
		use, err = d.measureCalmly(w)
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
	return d.lookFrozen(from)
}

// measureCalmly measures as long as nothing points to a fault, and w is not to
// stop.
func (d *disk) measureCalmly(w *diskWatch) (diskUse, error) {
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

// lookFrozen measures while nothing in the sandboxes moves.
func (d *disk) lookFrozen(from space) string {
	d.still.Lock()
	defer d.still.Unlock()
	d.mu.Lock()
	var running []*box
	for x, runs := range d.boxes {
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
		if err := x.Freeze(); err != nil && err != errGone {
			return sandbox.LimitDisk
		}
	}
	use, err := d.measureFor(diskStill)
	d.mu.Lock()
	d.frozen = time.Now()
	d.mu.Unlock()
	if err != nil {
		d.b.cfg.Log.Warn("a workspace cannot be measured while much is written: its executions are ended", "error", err)
		return sandbox.LimitDisk
	}
	return d.verdict(use, nil, from)
}

// verdict judges a measurement; with an error there may be more than was found.
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
	case err == nil && d.b.cfg.Reserve > 0 && use.available < d.b.cfg.Reserve && total.bytes > from.bytes+diskSlack:
		return sandbox.LimitHostDisk
	}
	return ""
}

// end kills all sandboxes in which code runs, and all that hold deleted files.
func (d *disk) end(limit string) {
	d.still.Lock()
	defer d.still.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.last.holders {
		if _, open := d.boxes[x]; open {
			x.w.kill()
		}
	}
	for x, runs := range d.boxes {
		if runs {
			x.overDisk = limit
			x.w.kill()
		}
	}
	d.last.at = time.Time{} // what they held is free again
}

// due reports whether it is time to measure.
func (d *disk) due() bool {
	age := d.age()
	d.mu.Lock()
	defer d.mu.Unlock()
	return age > min(max(diskPeriod, 10*d.cost), diskRest)
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
		return false // it is due
	}
	gone, left := d.last.free.minus(now.free), d.limits.minus(d.last.total())
	if reserve := d.b.cfg.Reserve; reserve > 0 {
		left.bytes = min(left.bytes, max(d.last.available-reserve, 16*diskSlack))
	}
	return gone.bytes > 0 && gone.bytes >= left.bytes || gone.files > 0 && gone.files >= left.files
}

// now reads what is free.
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

// measureFor is measure for at most so long.
func (d *disk) measureFor(patience time.Duration) (diskUse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return d.measure(ctx)
}

// measure measures until ctx ends. With an error, what it returns is the least
// that is used.
func (d *disk) measure(ctx context.Context) (diskUse, error) {
	use := d.now()
	began := time.Now()
	d.mu.Lock()
	var boxes []*box
	for x := range d.boxes {
		boxes = append(boxes, x)
	}
	origin, kind := d.origin, d.kind
	d.mu.Unlock()
	h, err := heldBy(ctx, d.dir, boxes)
	use.held, use.holders = h.open, h.holders
	if err == nil {
		use.tree.bytes, use.tree.files, err = d.b.cfg.Usage(ctx, d.dir)
	}
	if err == nil {
		err = d.addMapped(ctx, &use, origin, kind, boxes)
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
