package gvisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/job"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// BenchmarkWaiting is one execution with a waiting sandbox, from Open to the outcome.
func BenchmarkWaiting(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	spec := h.spec("a")
	h.run(backend, spec, "1+1")
	var times []time.Duration
	for b.Loop() {
		awaitWaiting(b, backend, spec, 2)
		started := time.Now()
		s, err := backend.Open(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if out, err := s.Run(b.Context(), sandbox.Program{ID: "b", Code: "1+1"}, sandbox.NoHost{}); err != nil ||
			string(out.Result) != "2" {
			b.Fatal(out, err)
		}
		times = append(times, time.Since(started))
		s.Close()
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2].Seconds()*1e3, "ms-p50")
	b.ReportMetric(times[len(times)*99/100].Seconds()*1e3, "ms-p99")
}

// BenchmarkStart is the start of a sandbox, until its worker is locked down.
func BenchmarkStart(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	spec := h.spec("a")
	spec.Limits = backend.cfg.Defaults
	for b.Loop() {
		g, err := backend.start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		g.end()
	}
}

// BenchmarkSaturated is one execution after another by two callers, with no time for the pool.
func BenchmarkSaturated(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	spec := h.spec("a")
	started := time.Now()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h.run(backend, spec, "1+1")
		}
	})
	b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "per-s")
}

// BenchmarkMemory is the memory of a waiting sandbox: all its processes, by PSS.
func BenchmarkMemory(b *testing.B) {
	h := newHost(b)
	backend := h.backend(func(c *Config) { c.Waiting = 4 })
	spec := h.spec("a")
	h.run(backend, spec, "1+1")
	awaitWaiting(b, backend, spec, 4)
	var kB int64
	for b.Loop() {
		kB = 0
		for _, pid := range process.Descendants(os.Getpid())[1:] {
			for line := range strings.Lines(read("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")) {
				if value, ok := strings.CutPrefix(line, "Pss:"); ok {
					n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
					kB += n
				}
			}
		}
	}
	b.ReportMetric(float64(kB)/1024/4, "MB")
}

// BenchmarkDataJob is the data job of sandpiper bench with a waiting sandbox, compared with a new process
// of the same interpreter.
func BenchmarkDataJob(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	spec := h.spec("a")
	file := filepath.Join(h.own(spec.UID, "a"), "records.json")
	if err := job.WriteRecords(file); err != nil {
		b.Fatal(err)
	}
	h.run(backend, spec, "1+1")
	var inside, outside time.Duration
	for b.Loop() {
		awaitWaiting(b, backend, spec, 2)
		started := time.Now()
		if out := h.run(backend, spec, strings.Replace(job.Code, "PATH", `"records.json"`, 1)); out.Status != sandbox.Completed {
			b.Fatal(out)
		}
		inside += time.Since(started)
		awaitWaiting(b, backend, spec, 2)
		started = time.Now()
		code := strings.Replace(job.Code, "PATH", strconv.Quote(file), 1)
		if out, err := exec.Command(filepath.Join(h.cfg.Python, "bin/python3.14"), "-I", "-c", code).CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
		outside += time.Since(started)
	}
	b.ReportMetric(inside.Seconds()*1e3/float64(b.N), "ms-inside")
	b.ReportMetric(outside.Seconds()*1e3/float64(b.N), "ms-outside")
}
