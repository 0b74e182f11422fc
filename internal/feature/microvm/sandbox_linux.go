//go:build amd64

package microvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// instance is one sandbox: a guest with a worker.
type instance struct {
	b      *Backend
	limits sandbox.Limits
	vm     *vm
	conn   *worker.Conn
	disk   *quota.Member // nil if its workspace has no limits

	mu     sync.Mutex // one Run
	number uint32
	dead   bool

	usages  chan guestMessage // answers to usage
	exited  chan struct{}     // closed when the worker has ended
	exit    *guestMessage     // how; nil if the guest did not report it
	closing sync.Mutex
	closed  bool

	freezing sync.Mutex
	frozen   bool
}

// openRequest is the message to guest.py that makes a restored guest a sandbox.
type openRequest struct {
	Op        string               `json:"op"`
	Seed      []byte               `json:"seed"`
	Time      int64                `json:"time"` // nanoseconds since 1970
	Memory    int64                `json:"memory"`
	Processes int                  `json:"processes"`
	Mounts    []mountRequest       `json:"mounts"`
	Header    process.WorkerHeader `json:"header"`
}

type mountRequest struct {
	ReadOnly bool `json:"read_only"`
}

// open restores a guest and waits until its worker is locked down.
func (x *instance) open(ctx context.Context, spec sandbox.Spec, uid int) error {
	memory, err := x.b.restoreMemory()
	if err != nil {
		return err
	}
	defer memory.Close()
	v, err := x.b.startVM(start{memory: memory, snapshot: x.b.snapshot, uid: uid, exports: exports(x.b.cfg.Roots, spec)})
	if err != nil {
		return err
	}
	x.closing.Lock()
	x.vm = v
	closed := x.closed
	if !closed {
		x.disk = x.b.quotas.Join(workspaceDir(x.b.cfg.Roots, spec), x, x.limits)
	}
	x.closing.Unlock()
	if closed {
		v.close()
		return errGuestEnded
	}
	defer context.AfterFunc(ctx, v.kill)()
	r := openRequest{
		Op: "open", Seed: newSeed(), Time: time.Now().UnixNano(), Memory: spec.Limits.MemoryBytes, Processes: spec.Limits.Processes,
		Header: process.NewWorkerHeader(spec.Limits, process.Programs(x.b.cfg.Libraries)),
	}
	r.Header.UID = uid
	for _, m := range spec.Mounts {
		r.Header.Mount(m.Target)
		r.Mounts = append(r.Mounts, mountRequest{m.ReadOnly})
	}
	if err := v.monitor.await(v.soon(), "RESUME"); err != nil {
		return v.explain(err)
	}
	if err := v.tell(r); err != nil {
		return v.explain(err)
	}
	if err := v.attachShared(); err != nil {
		return v.explain(err)
	}
	if err := v.awaitLockdown(); err != nil {
		return err
	}
	go x.receive()
	x.conn = worker.New(v.channel, v.stdout, v.stderr, worker.Limits{ResultBytes: spec.Limits.ResultBytes})
	return nil
}

// awaitLockdown waits for the first frame of the worker, or for the reason that there is none.
func (v *vm) awaitLockdown() error {
	got := make([]byte, len(process.LockedDown))
	_ = v.channel.SetReadDeadline(v.soon())
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(v.channel, got)
		read <- err
	}()
	var err error
	select {
	case err = <-read:
	case m, ok := <-v.answers:
		_ = v.channel.SetReadDeadline(time.Now())
		<-read
		if err = errGuestEnded; ok {
			err = fmt.Errorf("the guest reports: %s %s %s", m.Op, m.Error, v.readStderr())
		}
	case <-v.qemu.done:
		err = errGuestEnded
	}
	if err == nil && string(got) != process.LockedDown {
		err = errors.New("unexpected first frame")
	}
	if err != nil {
		return v.explain(fmt.Errorf("locking down a worker: %w", err))
	}
	return v.channel.SetReadDeadline(time.Time{})
}

// readStderr returns the stderr of a dying worker.
func (v *vm) readStderr() string {
	_ = v.stderr.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	text, _ := io.ReadAll(io.LimitReader(v.stderr, 4096))
	return string(text)
}

// Close implements sandbox.Sandbox.
func (x *instance) Close() error {
	x.closing.Lock()
	defer x.closing.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	x.disk.Leave()
	if x.vm != nil {
		x.vm.close()
	}
	if x.conn != nil {
		_ = x.conn.Close()
	}
	x.b.mu.Lock()
	delete(x.b.instances, x)
	x.b.mu.Unlock()
	return nil
}

// CPUTime implements sandbox.Meter. It is the processor time of QEMU, which includes that of the guest's kernel: asking
// the guest would take time, and its word.
func (x *instance) CPUTime() time.Duration { return process.CPUTime(x.vm.qemu.cmd.Process.Pid) }

// Run implements sandbox.Sandbox.
func (x *instance) Run(ctx context.Context, p sandbox.Program, host sandbox.Host) (sandbox.Outcome, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead {
		return sandbox.Outcome{Status: sandbox.Crashed, ErrorType: string(sandbox.Crashed),
			Error: "the interpreter of this sandbox has ended"}, nil
	}
	x.number++
	started := time.Now()
	x.disk.Prepare()
	x.disk.Begin()
	before := guestMessage{}
	if p.MeasureCPU {
		before = x.usage()
	}
	out, err := x.conn.Run(ctx, x.number, p, host)
	out.Usage.Wall = time.Since(started)
	if limit := x.disk.Finish(); limit != "" {
		x.dead = true
		x.vm.kill()
		return out.Over(limit, "The execution was ended: its workspace or the disk is full"), nil
	}
	if err == nil && out.Status.Reusable() {
		now := x.usage()
		if out.Usage.MemoryPeak = max(0, now.Memory); p.MeasureCPU {
			out.Usage.CPU = seconds(now.CPU - before.CPU)
		}
		return out, nil
	}
	x.dead = true
	if err == nil && out.Status == sandbox.Crashed && out.Error == "" {
		out = x.explain(out, before)
	}
	x.vm.kill()
	return out, err
}

// receive handles what the guest reports, until its worker has ended. Then it ends the channel.
func (x *instance) receive() {
	defer close(x.exited)
	defer x.endChannel()
	for m := range x.vm.answers {
		switch m.Op {
		case "usage":
			select {
			case x.usages <- m:
			default:
			}
		case "closed":
			x.endChannel()
		case "exit":
			x.exit = &m
			return
		}
	}
}

// endChannel makes reads from the channel return io.EOF after what has arrived.
func (x *instance) endChannel() {
	if c, err := x.vm.channel.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
	}
}

// usage asks the guest for the usage of its worker. The zero value means unknown.
func (x *instance) usage() (m guestMessage) {
	if x.vm.tell(map[string]string{"op": "usage"}) != nil {
		return m
	}
	select {
	case m = <-x.usages:
	case <-x.exited:
	case <-time.After(x.vm.step):
	}
	return m
}

func seconds(s float64) time.Duration { return time.Duration(max(0, s) * float64(time.Second)) }

// explain sets the cause of death of a worker that died without a Done frame.
func (x *instance) explain(out sandbox.Outcome, before guestMessage) sandbox.Outcome {
	select {
	case <-x.exited:
	case <-time.After(x.vm.step):
		out.Error = "The code closed the channel of its own interpreter"
		return out
	}
	if x.exit == nil { // the code ended it, or QEMU failed
		out.Error = "The virtual machine ended"
		return out
	}
	out.Usage.CPU, out.Usage.MemoryPeak = seconds(x.exit.CPU-before.CPU), max(0, x.exit.Memory)
	if x.exit.Killed {
		return process.OverMemory(out, x.limits)
	}
	return process.ExplainExit(out, syscall.WaitStatus(x.exit.Status), seconds(x.exit.CPU), x.limits)
}

// Freeze implements sandbox.Freezer.
func (x *instance) Freeze() error { return x.setFrozen(true, "stop") }

// Thaw implements sandbox.Freezer.
func (x *instance) Thaw() error { return x.setFrozen(false, "cont") }

func (x *instance) setFrozen(frozen bool, command string) error {
	x.freezing.Lock()
	defer x.freezing.Unlock()
	switch {
	case x.hasEnded():
		return sandbox.ErrEnded
	case x.frozen == frozen:
		return nil
	}
	err := x.vm.monitor.do(x.vm.soon(), nil, command, nil)
	if err == nil && !frozen { // its clock stood still
		err = x.vm.tell(map[string]any{"op": "clock", "time": time.Now().UnixNano()})
	}
	if err != nil && x.hasEnded() {
		return sandbox.ErrEnded
	}
	x.frozen = frozen
	return err
}

// hasEnded reports whether the worker or the guest has ended.
func (x *instance) hasEnded() bool {
	select {
	case <-x.exited:
	case <-x.vm.qemu.done:
	default:
		return false
	}
	return true
}

// Processes returns the process that has the files of the workspace open.
func (x *instance) Processes() []int { return []int{x.vm.sharing.cmd.Process.Pid} }

// HasExited reports whether that process has ended.
func (x *instance) HasExited() bool {
	select {
	case <-x.vm.sharing.done:
		return true
	default:
		return false
	}
}

// Kill ends the guest without waiting.
func (x *instance) Kill() { x.vm.kill() }
