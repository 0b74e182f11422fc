package process

import (
	"slices"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// BenchmarkWarm is one execution after another with a pause between, as a
// person's client makes them: the pool has time to fill.
func BenchmarkWarm(b *testing.B) {
	h := newHost(b)
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
				if _, err := s.Run(b.Context(), sandbox.Program{ID: "b", Code: "1+1"}, noHost{}); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			report(b, times)
		})
	}
}

// BenchmarkSaturated runs four callers per -cpu.
func BenchmarkSaturated(b *testing.B) {
	h := newHost(b)
	backend := h.backend(nil)
	spec := h.spec("a")
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.run(backend, spec, "1+1")
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "executions/s")
}

func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}
