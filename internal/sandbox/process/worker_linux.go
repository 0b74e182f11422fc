package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// process is one worker from fork to end.
type process struct {
	b       *Backend
	zygote  *zygote
	channel *net.UnixConn
	conn    *worker.Conn // over channel, once it is sealed
	out     *os.File     // what reaches descriptor 1 and 2 of the worker
	err     *os.File
	pidfd   *os.File
	died    chan struct{}        // closed when it, and all in its pid namespace, is gone
	exit    <-chan *zygoteAnswer // how it ended, as its parent heard
	group   *group
	level   int // how much less urgent it is than usual; see shares
	once    sync.Once
}

// fork makes a worker that waits for a tenant. With ahead it waits until the
// zygote has settled, and then rehearses: that halves the time of its first
// execution and costs more than it saves if somebody waits already.
func (b *Backend) fork(ahead bool) (*process, error) {
	for try := 0; ; try++ {
		z, err := b.liveZygote()
		if err != nil {
			return nil, err
		}
		if ahead {
			z.settle()
		}
		w, err := b.forkFrom(z, ahead)
		if err == nil || try > 0 || !errors.Is(err, errZygoteGone) {
			return w, err
		}
	}
}

func (b *Backend) forkFrom(z *zygote, ahead bool) (*process, error) {
	g, err := b.groups.take()
	if err != nil {
		return nil, fmt.Errorf("making a cgroup: %w", err)
	}
	w := &process{b: b, zygote: z, group: g}
	theirs, err := w.plumb()
	defer closeAll(theirs) // as they are now
	if err == nil {
		if g != nil {
			theirs = append(theirs, g.procs...) // closed with the group, not here
		}
		var pidfd int
		if pidfd, w.exit, err = z.fork(theirs, ahead); err == nil {
			_ = unix.SetNonblock(pidfd, true) // so that waiting for it is the poller's
			w.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
			w.died = make(chan struct{})
			b.tasks.Go(w.watchDeath)
			return w, nil
		}
	}
	w.closeFiles()
	b.groups.put(g)
	return nil, err
}

// plumb makes the worker's channel and pipes and returns its ends of them.
func (w *process) plumb() ([]int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := []int{pair[1]}
	if w.channel, err = connOf(pair[0]); err != nil {
		return theirs, err
	}
	for _, f := range []**os.File{&w.out, &w.err} {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return theirs, fmt.Errorf("pipe: %w", err)
		}
		_ = unix.SetNonblock(p[1], false)
		*f = os.NewFile(uintptr(p[0]), "pipe")
		theirs = append(theirs, p[1])
	}
	return theirs, nil
}

// header is what a worker is told when it is bound; it holds nothing that a
// tenant wrote.
type header struct {
	UID      int           `json:"uid"`
	Mounts   []headerMount `json:"mounts"`
	TmpBytes int64         `json:"tmp_bytes"`
	Landlock int           `json:"landlock"`
	RLimits  rlimits       `json:"rlimits"`
	Cwd      string        `json:"cwd"`
}

type headerMount struct {
	Target string `json:"target"`
}

// rlimits are set in this order: AS last, since setting it may leave the
// worker without room for another call.
type rlimits struct {
	Core   int64 `json:"CORE"`
	NoFile int64 `json:"NOFILE"`
	FSize  int64 `json:"FSIZE"`
	CPU    int64 `json:"CPU"`
	MQ     int64 `json:"MSGQUEUE"`
	Lock   int64 `json:"MEMLOCK"`
	Signal int64 `json:"SIGPENDING"`
	NProc  int64 `json:"NPROC"`
	AS     int64 `json:"AS"`
}

// noCore is a limit that leaves no core file and, unlike 0, also keeps the host's
// core handler from being started with the memory of what crashed; see core(5).
const noCore = 1

// queuedSignals is how many signals with data may wait in one sandbox. The kernel
// also counts them against the host user, whose other processes need them.
const queuedSignals = 256

// bindTimeout bounds how long a worker may take to seal itself.
const bindTimeout = 10 * time.Second

// bind gives the worker its tenant's mounts and limits and waits until it is
// sealed.
func (w *process) bind(ctx context.Context, spec sandbox.Spec) error {
	l := spec.Limits
	h := header{
		TmpBytes: tmpBytes(l.MemoryBytes), Landlock: w.b.landlock, Cwd: "/workspace",
		RLimits: rlimits{Core: noCore, NoFile: int64(l.OpenFiles), FSize: l.FileBytes, CPU: max(1, int64(l.CPU/time.Second)),
			Signal: queuedSignals, NProc: int64(l.Processes), AS: l.MemoryBytes + w.zygote.preloaded},
	}
	if w.b.ids.root {
		h.UID = spec.UID
		if h.UID == 0 {
			h.UID = FirstUID
		}
	}
	var mounts []bindMount
	for _, m := range spec.Mounts {
		mounts = append(mounts, bindMount{m.Root, m.Name, m.ReadOnly})
		h.Mounts = append(h.Mounts, headerMount{m.Target})
	}
	if err := w.b.groups.limit(w.group, l.MemoryBytes, l.Processes); err != nil {
		return fmt.Errorf("setting the cgroup's limits: %w", err)
	}
	keeper := w.b.keeperNow()
	if keeper == nil {
		return errKeeperGone
	}
	fds, err := keeper.bind(mounts)
	if err != nil {
		return err
	}
	defer closeAll(fds)
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(bindTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = w.channel.SetDeadline(deadline)
	if _, _, err := w.channel.WriteMsgUnix(body, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("binding a worker: %w: %s", err, w.lastWords())
	}
	if err := w.sealed(); err != nil {
		return fmt.Errorf("sealing a worker: %w: %s", err, w.lastWords())
	}
	w.b.groups.start(w.group)
	if err := w.channel.SetDeadline(time.Time{}); err != nil {
		return err
	}
	w.conn = worker.New(w.channel, w.out, w.err, worker.Limits{ResultBytes: l.ResultBytes})
	return nil
}

var sealedFrame = []byte("\x00\x00\x00\x02S\x00\x00\x00\x00{}")

// sealed waits for the frame that says so.
func (w *process) sealed() error {
	got := make([]byte, len(sealedFrame))
	if _, err := io.ReadFull(w.channel, got); err != nil {
		return err
	}
	if string(got) != string(sealedFrame) {
		return errors.New("it answered something else")
	}
	return nil
}

// lastWords are what a dying worker wrote to stderr.
func (w *process) lastWords() string {
	_ = w.err.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	b, _ := io.ReadAll(io.LimitReader(w.err, 4096))
	return string(b)
}

// gone reports whether the worker has died.
func (w *process) gone() bool {
	select {
	case <-w.died:
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

// watchDeath waits until the worker is gone: its pidfd becomes readable then.
func (w *process) watchDeath() {
	defer close(w.died)
	c, err := w.pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
}

// diesWithin waits for the worker's death.
func (w *process) diesWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.died:
		return true
	case <-t.C:
		return false
	}
}

// end kills the worker and returns what it held, in the background: nobody
// waits for the kernel to take an address space apart.
func (w *process) end() {
	w.once.Do(func() {
		w.kill()
		w.b.tasks.Go(func() {
			if !w.diesWithin(10 * time.Second) {
				w.b.cfg.Log.Error("a worker does not die; its cgroup is left behind")
			} else {
				w.b.groups.put(w.group)
			}
			w.closeFiles()
		})
	})
}

func (w *process) closeFiles() {
	if w.channel != nil {
		w.channel.Close()
	}
	for _, f := range []*os.File{w.out, w.err, w.pidfd} {
		if f != nil {
			f.Close()
		}
	}
}
