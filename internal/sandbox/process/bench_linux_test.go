package process

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// BenchmarkWarm is one execution after another with a pause between, as a
// person's client makes them: the pool has time to fill.
func BenchmarkWarm(b *testing.B) { warm(b, nil) }

// BenchmarkWarmPreload is BenchmarkWarm with a preloaded module.
func BenchmarkWarmPreload(b *testing.B) {
	warm(b, func(h *host) {
		h.packages(map[string]string{"large.py": "import json, decimal, xml.dom.minidom, email.message\nkept = [str(i) for i in " +
			"range(500_000)]\n"})
		h.cfg.Preload = []string{"large"}
	})
}

func warm(b *testing.B, prepare func(*host)) {
	h := newHost(b)
	if prepare != nil {
		prepare(h)
	}
	backend := h.backend(nil)
	spec := h.spec("a")
	h.run(backend, spec, "1+1")
	var times []time.Duration
	for b.Loop() {
		b.StopTimer()
		time.Sleep(15 * time.Millisecond)
		b.StartTimer()
		start := time.Now()
		h.run(backend, spec, "1+1")
		times = append(times, time.Since(start))
	}
	report(b, times)
}

// BenchmarkLive runs in one interpreter, with and without a quota on its
// workspace.
func BenchmarkLive(b *testing.B) {
	for name, quota := range map[string]int64{"no-quota": 0, "quota": 2 << 30} {
		b.Run(name, func(b *testing.B) {
			h := newHost(b)
			spec := h.spec("a")
			spec.Limits.WorkspaceDisk = quota
			s, err := h.backend(nil).Open(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := s.Run(b.Context(), sandbox.Program{ID: "b", Code: "1+1"}, sandbox.NoHost{}); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			report(b, times)
		})
	}
}

// BenchmarkSaturated runs four callers per -cpu. It reports the CPU time and the page
// faults of one execution, by process.
func BenchmarkSaturated(b *testing.B) { saturated(b, nil) }

// BenchmarkOwnNamespaces is BenchmarkSaturated with namespaces of each worker's own.
func BenchmarkOwnNamespaces(b *testing.B) { saturated(b, func(c *Config) { c.OwnNamespaces = true }) }

func saturated(b *testing.B, change func(*Config)) {
	h := newHost(b)
	backend := h.backend(change)
	spec := h.spec("a")
	h.run(backend, spec, "1+1")
	zygote := backend.zygoteNow()
	zygote.awaitSettled()
	before, beforeSelf := statOf(b, pidOf(zygote.pidfd)), selfCPU()
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.run(backend, spec, "1+1")
		}
	})
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "executions/s")
	after := statOf(b, pidOf(zygote.pidfd))
	b.ReportMetric(float64(after.cpu-before.cpu)/n, "zygote-µs")
	b.ReportMetric(float64(after.faults-before.faults)/n, "zygote-faults")
	b.ReportMetric(float64(after.childCPU-before.childCPU)/n, "worker-µs")
	b.ReportMetric(float64(after.childFaults-before.childFaults)/n, "worker-faults")
	b.ReportMetric(float64((selfCPU()-beforeSelf).Microseconds())/n, "daemon-µs")
}

// BenchmarkIdleWorker reports the proportional and the private memory of an idle worker.
func BenchmarkIdleWorker(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	h.run(backend, h.spec("a"), "1+1")
	for b.Loop() {
		time.Sleep(time.Second)
	}
	backend.pool.mu.Lock()
	defer backend.pool.mu.Unlock()
	var pss, private, n float64
	for _, workers := range append(slices.Collect(maps.Values(backend.pool.ready)), backend.pool.idle) {
		for _, w := range workers {
			for line := range strings.Lines(read(fmt.Sprintf("/proc/%d/smaps_rollup", w.hostPID()))) {
				if f := strings.Fields(line); len(f) == 3 {
					kib, _ := strconv.ParseFloat(f[1], 64)
					switch f[0] {
					case "Pss:":
						pss += kib
					case "Private_Dirty:":
						private += kib
					}
				}
			}
			n++
		}
	}
	b.ReportMetric(n, "workers")
	b.ReportMetric(pss/n, "PSS-KiB")
	b.ReportMetric(private/n, "private-KiB")
}

// processStat is the usage of a process and of the children that it has waited for, from /proc/PID/stat.
type processStat struct{ cpu, childCPU, faults, childFaults int64 } // CPU in microseconds

func statOf(b *testing.B, pid int) processStat {
	_, text, _ := strings.Cut(read(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
	f := strings.Fields(text)
	if len(f) < 15 {
		b.Fatalf("process %d has ended", pid)
	}
	field := func(i int) int64 { n, _ := strconv.ParseInt(f[i-3], 10, 64); return n } // numbered as in proc(5)
	const tick = 10_000
	return processStat{(field(14) + field(15)) * tick, (field(16) + field(17)) * tick, field(10), field(11)}
}

// selfCPU returns the CPU time of this process.
func selfCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
