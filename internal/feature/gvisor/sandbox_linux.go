package gvisor

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/quota"
)

// instance is one open sandbox.
type instance struct {
	b      *Backend
	g      *guest
	limits sandbox.Limits

	mu     sync.Mutex
	number uint32
	dead   bool

	freeze freezeState
	disk   *quota.Member // nil if its workspace has no limits
}

// Close kills the sandbox and ends a Run.
func (x *instance) Close() error {
	x.freeze.close()
	x.disk.Leave()
	x.g.end()
	x.b.pool.refill()
	return nil
}

// CPUTime implements sandbox.Meter.
func (x *instance) CPUTime() time.Duration { return x.g.sentry.cpuTime() }

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
	watch := x.g.watchMemory(x.limits.MemoryBytes)
	x.disk.Prepare()
	x.disk.Begin()
	var before time.Duration
	if p.MeasureCPU {
		before = x.g.sentry.cpuTime()
	}
	out, err := x.g.conn.Run(ctx, x.number, p, host)
	if p.MeasureCPU { // before the sandbox is killed
		out.Usage.CPU = max(x.g.sentry.cpuTime()-before, 0)
	}
	diskLimit := x.disk.Finish()
	watch.stop(x.g)
	out.Usage.Wall = time.Since(started)
	out.Usage.MemoryPeak = watch.peak
	if diskLimit != "" {
		x.dead = true
		x.g.kill()
		return out.Over(diskLimit, "The execution was ended: its workspace or the disk is full"), nil
	}
	if err == nil && x.b.integrity.FailedByDamage(out) {
		x.dead = true
		x.g.kill()
		return sandbox.Outcome{}, process.Damaged("the code failed; its effects until then are not undone")
	}
	if err == nil && out.Status.Reusable() {
		return out, nil
	}
	x.dead = true
	unexplained := err == nil && out.Status == sandbox.Crashed && out.Error == ""
	overMemory := watch.over || x.g.group.Killed()
	died := unexplained && (overMemory || x.g.exitsWithin(exitWait))
	x.g.kill()
	switch {
	case died:
		out = x.explain(out, overMemory)
	case unexplained:
		out.Error = "The code closed the channel of its own interpreter"
	}
	return out, err
}

// exitWait bounds the wait for the exit of runsc after the channel closed. If it still runs,
// the code closed the channel.
const exitWait = 2 * time.Second

// explain sets the cause of death of a worker that died without a Done frame.
func (x *instance) explain(out sandbox.Outcome, overMemory bool) sandbox.Outcome {
	if overMemory {
		return out.Over(sandbox.LimitMemory, fmt.Sprintf("Memory limit of %d MB reached by all processes together (%d MB in use): "+
			"the execution was ended. Process the data in smaller pieces or raise memory_mb", x.limits.MemoryBytes>>20,
			out.Usage.MemoryPeak>>20))
	}
	switch code := x.g.cmd.ProcessState.ExitCode(); {
	case code == signalled+int(syscall.SIGXCPU), code == signalled+int(syscall.SIGKILL) && out.Usage.Wall >= x.limits.CPU:
		return out.Over(sandbox.LimitCPU, fmt.Sprintf("CPU time limit of %s reached: the execution was ended", x.limits.CPU))
	case code > signalled:
		signal := syscall.Signal(code - signalled)
		out.Error = fmt.Sprintf("The Python process was killed by signal %d (%s)", code-signalled, signal)
	case code >= 0:
		out.Error = fmt.Sprintf("The Python process exited with status %d before the code was done (os._exit, or a closed channel)", code)
	default:
		out.Error = "The sandbox died"
	}
	return out
}

// signalled plus its number is the exit status of runsc for a worker killed by a signal.
const signalled = 128
