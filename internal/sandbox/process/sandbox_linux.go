package process

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/quota"
)

// instance is one sandbox: a bound worker and its owner.
type instance struct {
	b      *Backend
	w      *process
	limits sandbox.Limits
	owner  string

	mu     sync.Mutex
	number uint32
	dead   bool

	freeze freezeState
	disk   *quota.Member // nil if its workspace has no limits
}

// Close kills the worker and ends a Run.
func (x *instance) Close() error {
	x.freeze.close()
	x.disk.Leave()
	x.w.end()
	x.b.pool.refill()
	return nil
}

// Processes, HasExited and Kill implement quota.Sandbox.
func (x *instance) Processes() []int { return x.w.pids() }

// HasExited reports whether the worker has died. Its cgroup may then have a new worker.
func (x *instance) HasExited() bool { return x.w.hasExited() }

// Kill kills the worker.
func (x *instance) Kill() { x.w.kill() }

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
	x.b.running.Add(1)
	defer x.b.running.Add(-1)
	defer x.b.shares.begin(x.owner, x.w)()
	watch := x.b.watch(x.w, x.limits)
	x.disk.Prepare()
	x.disk.Begin()
	var before time.Duration
	if p.MeasureCPU {
		before = x.w.cpuTime()
	}
	out, err := x.w.conn.Run(ctx, x.number, p, host)
	if p.MeasureCPU { // before the worker is killed
		out.Usage.CPU = max(x.w.cpuTime()-before, 0)
	}
	diskLimit := x.disk.Finish()
	soft := watch.stop()
	out.Usage.Wall = time.Since(started)
	out.Usage.MemoryPeak = max(x.w.group.peakBytes(), soft.peak)
	if out.Usage.MemoryPeak == 0 && out.Limit == sandbox.LimitMemory { // before the first measurement
		kernel := x.b.newKernelMemory(x.limits)
		out.Usage.MemoryPeak = memoryOfAll(memoryOfEach(descendants(x.w.hostPID(), nil)), x.w.inherited.resident, &kernel, false).total()
	}
	return x.end(out, err, diskLimit, soft)
}

// end decides whether the worker may run again after an execution, and kills it otherwise. It completes the outcome.
func (x *instance) end(out sandbox.Outcome, err error, diskLimit string, soft memoryUsage) (sandbox.Outcome, error) {
	if diskLimit != "" {
		x.dead = true
		x.w.kill()
		return out.Over(diskLimit, "The execution was ended: its workspace or the disk is full"), nil
	}
	if err == nil && x.b.integrity.FailedByDamage(out) {
		x.dead = true
		x.w.kill()
		return sandbox.Outcome{}, Damaged("the code failed; its effects until then are not undone")
	}
	if err == nil && out.Status.Reusable() {
		if out.Usage.MemoryPeak < x.limits.MemoryBytes*9/10 || !x.w.group.killed() {
			return out, nil
		}
		// cgroups v1 kill only one process, and the code continued without it
		x.dead = true
		x.w.kill()
		return OverMemory(out, x.limits), nil
	}
	x.dead = true
	unexplained := err == nil && out.Status == sandbox.Crashed && out.Error == ""
	died := unexplained && (soft.over || x.w.group.killed() || x.w.exitsWithin(exitWait))
	x.w.kill()
	switch {
	case died:
		out = x.explain(out, soft)
	case unexplained:
		out.Error = "The code closed the channel of its own interpreter"
	}
	return out, err
}

// exitWait bounds the wait for a worker's exit after its channel closed. A worker
// that is still alive then closed the channel itself.
const exitWait = time.Second

// explain sets the cause of death of a worker that died without a Done frame.
func (x *instance) explain(out sandbox.Outcome, soft memoryUsage) sandbox.Outcome {
	exit := x.exitStatus()
	if exit != nil {
		out.Usage.CPU = max(out.Usage.CPU, time.Duration(exit.CPU*float64(time.Second)))
	}
	switch {
	case !soft.over && x.w.group.killed() && out.Usage.MemoryPeak > 0 && out.Usage.MemoryPeak < x.limits.MemoryBytes*9/10:
		out.Error = fmt.Sprintf("The kernel ended the execution at %d MB of its %d MB: %s", out.Usage.MemoryPeak>>20,
			x.limits.MemoryBytes>>20, noMemoryLeft)
		return out
	case soft.over || x.w.group.killed():
		return withKernelUse(OverMemory(out, x.limits), soft.kernel, x.limits)
	case exit == nil: // its zygote died first
		out.Error = "the process that it was forked from ended before"
		return out
	case syscall.WaitStatus(exit.Status).Signal() == syscall.SIGBUS && exit.RSS<<10 >= tmpBytes(x.limits.MemoryBytes):
		out.Usage.MemoryPeak = max(out.Usage.MemoryPeak, exit.RSS<<10)
		return out.Over(sandbox.LimitMemory, fmt.Sprintf("Memory limit of %d MB reached: /dev/shm, which shared memory uses, has half of "+
			"it and is full", x.limits.MemoryBytes>>20))
	}
	return ExplainExit(out, syscall.WaitStatus(exit.Status), out.Usage.CPU, x.limits)
}

// ExplainExit sets the cause of death of a worker with a wait status that used CPU time.
func ExplainExit(out sandbox.Outcome, status syscall.WaitStatus, cpu time.Duration, limits sandbox.Limits) sandbox.Outcome {
	switch {
	case status.Signal() == syscall.SIGABRT && failedAllocation.MatchString(out.Stderr):
		return OverMemory(out, limits)
	case isCPULimit(status, cpu, limits.CPU):
		return out.Over(sandbox.LimitCPU, fmt.Sprintf("CPU time limit of %s reached: the execution was ended", limits.CPU))
	case status.Signal() == syscall.SIGBUS:
		out.Error = "The Python process used a page that a mapped file does not have: the file was truncated, or its directory /dev/shm " +
			"or /tmp, which has half of memory_mb, is full"
	case status.Signaled():
		out.Error = fmt.Sprintf("The Python process was killed by signal %d (%s)", int(status.Signal()), status.Signal())
		if status.Signal() == syscall.SIGKILL {
			out.Error += ": perhaps " + noMemoryLeft
		}
	case status.Exited():
		out.Error = fmt.Sprintf("The Python process exited with status %d before the code was done (os._exit, or a closed channel)",
			status.ExitStatus())
	}
	return out
}

// noMemoryLeft is the cause of death of a worker below its limit.
const noMemoryLeft = "the machine, or the service of Sandpiper (MemoryMax), has no free memory; try again in a moment"

// failedAllocation matches what programs in Rust and C++ write before they abort because an allocation failed.
var failedAllocation = regexp.MustCompile(`memory allocation of \d+ bytes failed|std::bad_alloc`)

// OverMemory returns out as ended by its memory limit.
func OverMemory(out sandbox.Outcome, limits sandbox.Limits) sandbox.Outcome {
	return out.Over(sandbox.LimitMemory, fmt.Sprintf("Memory limit of %d MB reached by all processes together (%d MB in use): "+
		"the execution was ended. Process the data in smaller pieces or raise memory_mb", limits.MemoryBytes>>20, out.Usage.MemoryPeak>>20))
}

// withKernelUse adds to the error of out what was counted for the kernel, if that is a large part of the limit.
func withKernelUse(out sandbox.Outcome, kernel kernelUse, limits sandbox.Limits) sandbox.Outcome {
	if kernel.total() > limits.MemoryBytes/4 {
		out.Error += fmt.Sprintf(". Of the memory in use, %d MB are what the kernel may need: %s", kernel.total()>>20, kernel)
	}
	return out
}

// isCPULimit reports whether the CPU limit ended a worker. The kernel measures the
// limit in ticks but used exactly, which differ much on a busy machine; no other
// limit sends SIGKILL here.
func isCPULimit(status syscall.WaitStatus, used, limit time.Duration) bool {
	return used >= limit-100*time.Millisecond || status.Signal() == syscall.SIGKILL && used >= limit/2
}

// exitStatus waits up to two seconds for the exit status from the zygote.
func (x *instance) exitStatus() *zygoteAnswer {
	select {
	case a := <-x.w.exit:
		return a
	case <-time.After(2 * time.Second):
		return nil
	}
}
