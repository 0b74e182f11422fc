package process

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// CPUTime implements sandbox.Meter.
func (x *instance) CPUTime() time.Duration { return x.w.cpuTime() }

// cpuTime returns the CPU time of the worker and its processes so far. It is exact with cgroup
// v2; otherwise it is that of the processes that exist, and of those that they have waited for.
func (w *process) cpuTime() time.Duration {
	if used, ok := w.group.cpuTime(); ok {
		return used
	}
	if pid := w.hostPID(); pid > 0 {
		return CPUTime(pid)
	}
	return 0
}

// CPUTime returns the CPU time of a process, of its descendants, and of those that these have waited for.
func CPUTime(pid int) time.Duration {
	var ticks int64
	for _, p := range descendants(pid, nil) {
		ticks += ticksOf(p)
	}
	return time.Duration(ticks) * (time.Second / clockTicks)
}

// cpuTime returns the CPU time of all processes that were ever in the group.
func (g *group) cpuTime() (used time.Duration, ok bool) {
	if g == nil || g.usage == nil {
		return 0, false
	}
	var buf [1024]byte
	n, _ := g.usage.ReadAt(buf[:], 0)
	for line := range strings.Lines(string(buf[:n])) {
		if v, found := strings.CutPrefix(line, "usage_usec "); found {
			return time.Duration(number(strings.TrimSpace(v))) * time.Microsecond, true
		}
	}
	return 0, false
}

// clockTicks is the unit of CPU times in /proc, USER_HZ, which is 100 on every architecture.
const clockTicks = 100

// ticksOf returns the CPU time of a process and of those that it has waited for.
func ticksOf(pid int) (ticks int64) {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	after := strings.LastIndex(string(b), ") ")                             // of the name, which may contain anything
	if f := strings.Fields(string(b[after+1:])); after > 0 && len(f) > 15 { // from the state on
		for _, v := range f[11:15] { // utime, stime, cutime, cstime
			ticks += number(v)
		}
	}
	return ticks
}
