package process

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// box is one sandbox: a sealed worker that has an owner.
type box struct {
	b      *Backend
	w      *process
	limits sandbox.Limits
	owner  string

	mu     sync.Mutex
	number uint32
	dead   bool

	still    stillness
	disk     *disk  // nil if its workspace has no limits
	overDisk string // the limit on disk that it exceeded; set before it is killed
}

// Close ends the worker, and a Run with it.
func (x *box) Close() error {
	x.still.close()
	x.disk.leave(x)
	x.w.end()
	x.b.pool.refill()
	return nil
}

// Run executes p; see sandbox.Sandbox.
func (x *box) Run(ctx context.Context, p sandbox.Program, host sandbox.Host) (sandbox.Outcome, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead {
		return sandbox.Outcome{Status: sandbox.Crashed, ErrorType: string(sandbox.Crashed), Error: "the interpreter of this sandbox has ended"}, nil
	}
	x.number++
	started := time.Now()
	x.b.running.Add(1)
	defer x.b.running.Add(-1)
	defer x.b.shares.begin(x.owner, x.w)()
	watch := x.b.watch(x.w, x.limits)
	x.disk.begin(x)
	out, err := x.w.conn.Run(ctx, x.number, p, host)
	overDisk := x.disk.finish(x)
	soft := watch.stop()
	out.Usage.Wall = time.Since(started)
	out.Usage.MemoryPeak = max(x.w.group.peakBytes(), soft.peak)
	if overDisk != "" {
		x.dead = true
		x.w.kill()
		return over(out, overDisk, "The execution was ended: its workspace or the disk is full"), nil
	}
	if err == nil && x.b.spoiled(out) {
		x.dead = true
		x.w.kill()
		return sandbox.Outcome{}, damaged("the code failed; what it did until then has happened")
	}
	if err == nil && out.Status.Reusable() {
		if out.Usage.MemoryPeak < x.limits.MemoryBytes*9/10 || !x.w.group.killed() {
			return out, nil
		}
		// version 1 of cgroups kills one process, and the code went on without it
		x.dead = true
		x.w.kill()
		return x.overMemory(out), nil
	}
	x.dead = true
	unexplained := err == nil && out.Status == sandbox.Crashed && out.Error == ""
	itself := unexplained && (soft.over || x.w.group.killed() || x.w.diesWithin(dyingTime))
	x.w.kill()
	switch {
	case itself:
		out = x.explain(out, soft)
	case unexplained:
		out.Error = "The code closed the channel of its own interpreter"
	}
	return out, err
}

// dyingTime is how long a worker may take to die after its channel closed; one
// that lives on has closed it without dying.
const dyingTime = time.Second

// explain says why a worker died without saying so itself.
func (x *box) explain(out sandbox.Outcome, soft softUsage) sandbox.Outcome {
	exit := x.exitOf()
	if exit != nil {
		out.Usage.CPU = time.Duration(exit.CPU * float64(time.Second))
	}
	switch {
	case soft.over || x.w.group.killed():
		return x.overMemory(out)
	case exit == nil: // its zygote died before it
		out.Error = "The Python process died"
		return out
	case outOfCPU(syscall.WaitStatus(exit.Status), out.Usage.CPU, x.limits.CPU):
		return over(out, sandbox.LimitCPU, fmt.Sprintf("CPU time limit of %s reached: the execution was ended", x.limits.CPU))
	}
	status := syscall.WaitStatus(exit.Status)
	switch {
	case status.Signaled():
		out.Error = fmt.Sprintf("The Python process was killed by signal %d (%s)", int(status.Signal()), status.Signal())
	case status.Exited():
		out.Error = fmt.Sprintf("The Python process exited with status %d before the code was done (os._exit, or a closed channel)", status.ExitStatus())
	}
	return out
}

func (x *box) overMemory(out sandbox.Outcome) sandbox.Outcome {
	return over(out, sandbox.LimitMemory, fmt.Sprintf("Memory limit of %d MB reached by all processes together (%d MB in use): "+
		"the execution was ended. Process the data in smaller pieces or raise memory_mb", x.limits.MemoryBytes>>20, out.Usage.MemoryPeak>>20))
}

func over(out sandbox.Outcome, limit, says string) sandbox.Outcome {
	out.Status, out.Limit, out.ErrorType, out.Error, out.Result, out.Traceback = sandbox.OverLimit, limit, limit, says, nil, ""
	return out
}

// outOfCPU tells whether the limit on CPU time ended a worker. The kernel counts
// for the limit in ticks, and for used exactly: on a busy machine the two
// differ much, and nothing but a limit sends this signal.
func outOfCPU(status syscall.WaitStatus, used, limit time.Duration) bool {
	return used >= limit-100*time.Millisecond || status.Signal() == syscall.SIGKILL && used >= limit/2
}

// exitOf waits a moment for the zygote to tell how the worker ended.
func (x *box) exitOf() *zygoteAnswer {
	select {
	case a := <-x.w.exit:
		return a
	case <-time.After(2 * time.Second):
		return nil
	}
}
