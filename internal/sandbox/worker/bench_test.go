//go:build linux

package worker_test

import (
	"context"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// BenchmarkLive is the round trip of `1+1` in an interpreter that has run code before.
func BenchmarkLive(b *testing.B) {
	w := open(b, worker.Limits{})
	h := newHost()
	w.run(context.Background(), b, "1+1", "", h)
	for b.Loop() {
		if o := w.run(context.Background(), b, "1+1", "", h); string(o.Result) != "2" {
			b.Fatalf("%+v", o)
		}
	}
}

// BenchmarkFirst is the first `1+1` of a worker that was forked and rehearsed ahead.
func BenchmarkFirst(b *testing.B) {
	h := newHost()
	for b.Loop() {
		b.StopTimer()
		w := open(b, worker.Limits{})
		b.StartTimer()
		o := w.run(context.Background(), b, "1+1", "", h)
		b.StopTimer()
		if string(o.Result) != "2" {
			b.Fatalf("%+v", o)
		}
		w.Close()
		b.StartTimer()
	}
}

// BenchmarkCall is a call from Python to the host and back.
func BenchmarkCall(b *testing.B) {
	w := open(b, worker.Limits{})
	const n = 1000
	code := call + "args = {'a': 1}\nfor _ in range(1000): _call('echo', args)"
	for b.Loop() {
		if o := w.run(context.Background(), b, code, "", newHost()); o.Status != sandbox.Completed {
			b.Fatalf("%+v", o)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/call")
}

// BenchmarkPrint is one print call.
func BenchmarkPrint(b *testing.B) {
	w := open(b, worker.Limits{})
	const n = 1000
	for b.Loop() {
		w.run(context.Background(), b, "for i in range(1000): print(i)", "", newHost())
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/print")
}
