package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// process is one worker from fork to end.
type process struct {
	b       *Backend
	zygote  *zygote
	channel *os.File     // a socket
	conn    *worker.Conn // over channel, after lockdown
	out     *os.File     // descriptors 1 and 2 of the worker
	err     *os.File
	pidfd   *os.File
	exited  chan struct{}        // closed when it and its pid namespace have ended
	exit    <-chan *zygoteAnswer // exit status from the zygote
	group   *group
	level   int // priority levels below the default; see shares

	settled   bool      // the zygote was, when it forked the worker
	inherited memoryUse // from the zygote, which does not count towards the limit
	hardData  int64     // the hard RLIMIT_DATA
	once      sync.Once
}

// fork makes an unbound worker. With ahead it waits until the zygote has settled, and
// the worker rehearses: that halves the time of its first execution, but costs more
// than it saves if a caller is waiting.
func (b *Backend) fork(ahead bool) (*process, error) {
	for try := 0; ; try++ {
		z, err := b.currentZygote()
		if err != nil {
			return nil, err
		}
		if ahead {
			z.awaitSettled()
		}
		var w *process
		if err = errZygoteGone; !z.dead() { // else a cgroup would be created in vain, for each worker of the pool when the backend closes
			w, err = b.forkFrom(z, ahead)
		}
		if err == nil || try > 0 || !errors.Is(err, errZygoteGone) {
			return w, err
		}
	}
}

func (b *Backend) forkFrom(z *zygote, ahead bool) (*process, error) {
	g, err := b.groups.take()
	if err != nil {
		return nil, fmt.Errorf("creating a cgroup: %w", err)
	}
	w := &process{b: b, zygote: z, group: g, settled: z.isSettled()}
	theirs, err := w.openPipes()
	defer closeAll(theirs) // without the group's descriptors, appended below
	if err == nil {
		if g != nil {
			theirs = append(theirs, g.join...) // owned by the group
		}
		var pidfd int
		if pidfd, w.exit, err = z.fork(theirs, ahead); err == nil {
			_ = unix.SetNonblock(pidfd, true) // so that the runtime polls it
			w.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
			w.exited = make(chan struct{})
			b.tasks.Go(w.awaitExit)
			return w, nil
		}
	}
	w.closeFiles()
	b.groups.put(g)
	return nil, err
}

// openPipes creates the worker's channel and pipes and returns its ends.
func (w *process) openPipes() ([]int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := []int{pair[1]}
	setBlocking(pair[1])
	w.channel = os.NewFile(uintptr(pair[0]), "channel")
	for _, f := range []**os.File{&w.out, &w.err} {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return theirs, fmt.Errorf("pipe: %w", err)
		}
		setBlocking(p[1])
		*f = os.NewFile(uintptr(p[0]), "pipe")
		theirs = append(theirs, p[1])
	}
	return theirs, nil
}

// setBlocking makes a new descriptor, which has no other flags, a blocking one. It takes
// one system call instead of the two of unix.SetNonblock.
func setBlocking(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0) }

// header is the message that binds a worker; it contains no tenant data.
type header struct {
	UID      int           `json:"uid"`
	Mounts   []headerMount `json:"mounts"`
	TmpBytes int64         `json:"tmp_bytes"` // 0 means that of zygoteInit
	Landlock int           `json:"landlock"`
	Programs []string      `json:"programs"` // that code may execute
	RLimits  rlimits       `json:"rlimits"`
	Cwd      string        `json:"cwd"`
}

type headerMount struct {
	Target string `json:"target"`
}

// rlimits are set in this order: those of memory are last, since no further allocation may be
// possible after them.
type rlimits struct {
	Core   int64    `json:"CORE"`
	NoFile int64    `json:"NOFILE"`
	FSize  int64    `json:"FSIZE"`
	CPU    int64    `json:"CPU"`
	MQ     int64    `json:"MSGQUEUE"`
	Lock   int64    `json:"MEMLOCK"`
	Signal int64    `json:"SIGPENDING"`
	NProc  int64    `json:"NPROC"`
	Data   [2]int64 `json:"DATA"` // soft and hard
	AS     int64    `json:"AS"`
}

// noCore is an RLIMIT_CORE that prevents core files and, unlike 0, also the start of
// the host's core handler with the memory of the crashed process; see core(5).
const noCore = 1

// queuedSignals bounds the pending signals with data in one sandbox. The kernel also
// counts them against the host user, whose other processes need them.
const queuedSignals = 256

// bindTimeout bounds the lockdown of a worker.
const bindTimeout = 10 * time.Second

// bind sends the worker the mounts and limits of spec and waits for its lockdown.
func (w *process) bind(ctx context.Context, spec sandbox.Spec) error {
	l := spec.Limits
	w.inherited = w.measureInherited()
	w.hardData = w.inherited.data + reserveFactor*l.MemoryBytes
	h := NewWorkerHeader(l, w.b.programs)
	h.Landlock = w.b.landlock
	h.RLimits.Data = [2]int64{w.softData(w.inherited.data, allowance(l.MemoryBytes, l.MemoryBytes)), w.hardData}
	h.RLimits.AS += w.inherited.size
	uid, _ := w.b.ids.tenant(spec.UID) // Open has checked it
	h.UID = uid
	if l.MemoryBytes == w.b.cfg.Defaults.MemoryBytes {
		h.TmpBytes = 0 // the zygote mounted it with this size
	}
	var mounts []keeper.Mount
	for _, m := range spec.Mounts {
		mounts = append(mounts, keeper.Mount{Root: m.Root, Name: m.Name, Target: m.Target, ReadOnly: m.ReadOnly})
		h.Mount(m.Target)
	}
	if err := w.b.groups.limit(w.group, l.MemoryBytes, l.Processes); err != nil {
		return fmt.Errorf("setting the limits of a cgroup: %w", err)
	}
	k := w.b.currentKeeper()
	if k == nil {
		return errKeeperGone
	}
	var fds []int
	var err error
	if w.zygote.key == nil {
		fds, err = k.bind(mounts)
	} else {
		h.Mounts, h.TmpBytes = []headerMount{}, 0
		if h.UID != 0 {
			h.UID = insideUID
		}
		err = k.place(w.pidfd, w.hostPID(), uid, tmpBytes(l.MemoryBytes), mounts)
	}
	if err != nil {
		return err
	}
	defer closeAll(fds)
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := w.lockDown(ctx, body, fds); err != nil {
		return err
	}
	if len(w.b.cfg.Preload) > 0 {
		if err := checkLockdown(w.hostPID(), uid, h.RLimits, w.b.cfg.Disabled); err != nil {
			return fmt.Errorf("a worker is not locked down, which a module of sandbox.preload may have prevented: %w", err)
		}
	}
	w.b.groups.start(w.group)
	w.conn = worker.New(w.channel, w.out, w.err, worker.Limits{ResultBytes: l.ResultBytes})
	return nil
}

// lockDown sends the header with descriptors and waits until the worker has locked itself down.
func (w *process) lockDown(ctx context.Context, header []byte, fds []int) error {
	deadline := time.Now().Add(bindTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = w.channel.SetDeadline(deadline)
	if err := w.sendHeader(header, fds); err != nil {
		return fmt.Errorf("binding a worker: %w: %s", err, w.readStderr())
	}
	if err := w.awaitLockdown(); err != nil {
		return fmt.Errorf("locking down a worker: %w: %s", err, w.readStderr())
	}
	return w.channel.SetDeadline(time.Time{})
}

// sendHeader sends the header, which fits the buffer of the new socket, with descriptors.
func (w *process) sendHeader(body []byte, fds []int) error {
	c, err := w.channel.SyscallConn()
	if err != nil {
		return err
	}
	oob, sent := unix.UnixRights(fds...), 0
	if failed := c.Control(func(fd uintptr) { sent, err = unix.SendmsgN(int(fd), body, oob, nil, unix.MSG_NOSIGNAL) }); failed != nil {
		return failed
	}
	if err == nil && sent < len(body) {
		err = io.ErrShortWrite
	}
	return err
}

// LockedDown is the first frame of a worker, after its lockdown.
const LockedDown = "\x00\x00\x00\x02S\x00\x00\x00\x00{}"

// awaitLockdown reads the frame that reports the lockdown.
func (w *process) awaitLockdown() error {
	got := make([]byte, len(LockedDown))
	if _, err := io.ReadFull(w.channel, got); err != nil {
		return err
	}
	if string(got) != LockedDown {
		return errors.New("unexpected first frame")
	}
	return nil
}

// readStderr returns the stderr of a dying worker.
func (w *process) readStderr() string {
	_ = w.err.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	b, _ := io.ReadAll(io.LimitReader(w.err, 4096))
	return string(b)
}

// hasExited reports whether the worker has died.
func (w *process) hasExited() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}

func (w *process) fd() int {
	fd := -1
	if c, err := w.pidfd.SyscallConn(); err == nil {
		_ = c.Control(func(p uintptr) { fd = int(p) })
	}
	return fd
}

// kill ends the worker and everything in its pid namespace.
func (w *process) kill() {
	if c, err := w.pidfd.SyscallConn(); err == nil {
		_ = c.Control(func(p uintptr) { _ = unix.PidfdSendSignal(int(p), unix.SIGKILL, nil, 0) })
	}
}

// awaitExit waits until the pidfd is readable, which reports the exit, and closes
// exited.
func (w *process) awaitExit() {
	defer close(w.exited)
	c, err := w.pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
}

// exitsWithin reports whether the worker exits within d.
func (w *process) exitsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.exited:
		return true
	case <-t.C:
		return false
	}
}

// end kills the worker and releases its resources in the background, since the kernel
// takes time to free an address space.
func (w *process) end() {
	w.once.Do(func() {
		w.kill()
		w.b.tasks.Go(func() {
			if !w.exitsWithin(10 * time.Second) {
				w.b.cfg.Log.Error("a killed worker does not exit; its cgroup remains")
			} else {
				w.b.groups.put(w.group)
			}
			w.closeFiles()
		})
	})
}

func (w *process) closeFiles() {
	for _, f := range []*os.File{w.channel, w.out, w.err, w.pidfd} {
		if f != nil {
			f.Close()
		}
	}
}
