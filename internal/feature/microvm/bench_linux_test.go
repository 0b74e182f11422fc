//go:build amd64

package microvm

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// With a processor that is emulated, these say nothing about KVM.

// BenchmarkBoot is the start of a backend: a guest boots, its snapshot is taken, and a sandbox opened.
func BenchmarkBoot(b *testing.B) {
	h := newHost(b)
	for b.Loop() {
		h.backend().Close()
	}
}

// BenchmarkOpen is a restored guest until its worker is locked down, and then its first execution.
func BenchmarkOpen(b *testing.B) {
	h := newHost(b)
	backend := h.backend()
	spec := h.spec("a")
	var first time.Duration
	for b.Loop() {
		s, err := backend.Open(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		if out, err := s.Run(b.Context(), sandbox.Program{ID: "b", Code: "1+1"}, sandbox.NoHost{}); err != nil ||
			string(out.Result) != "2" {
			b.Fatal(out, err)
		}
		first += time.Since(opened)
		s.Close()
	}
	b.ReportMetric(first.Seconds()*1e3/float64(b.N), "ms-first-run")
}

// BenchmarkMemory is the memory of an open sandbox: both processes, by PSS.
func BenchmarkMemory(b *testing.B) {
	h := newHost(b)
	backend := h.backend()
	s, err := backend.Open(b.Context(), h.spec("a"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var kB int64
	for b.Loop() {
		kB = 0
		for _, pid := range process.Descendants(os.Getpid())[1:] {
			text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
			for line := range strings.Lines(string(text)) {
				if value, ok := strings.CutPrefix(line, "Pss:"); ok {
					n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
					kB += n
				}
			}
		}
	}
	b.ReportMetric(float64(kB)/1024, "MB")
	var snapshot int64
	for _, e := range backend.pages {
		snapshot += e.end - e.at
	}
	b.ReportMetric(float64(snapshot)/(1<<20), "MB-snapshot")
}
