//go:build unix

// Package privacy_test measures how the time of each entry of the packages below grows with its
// input.
package privacy_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// BenchmarkGrowth doubles the size of each input of each entry eight times, and reports the exponent
// of its processor time: 1 is linear, 2 quadratic. One above 1.1 is a fault if it is so on a quiet
// machine too and the time for a byte, which is logged, does not level off. GROWTH_KB is the largest size.
func BenchmarkGrowth(b *testing.B) {
	const doublings, tries = 8, 3
	largest := 256 << 10
	if kb, err := strconv.Atoi(os.Getenv("GROWTH_KB")); err == nil {
		largest = kb << 10
	}
	for _, e := range entries {
		for _, in := range inputs {
			if e.only != nil && !e.only[in.name] {
				continue
			}
			b.Run(e.name+"/"+in.name, func(b *testing.B) {
				var sizes, times [doublings + 1]float64
				for b.Loop() {
					for try := range tries { // not one size after the other: the machine is not always as fast
						for k := range sizes {
							size, f := e.prepare(b, in, largest>>(doublings-k), largest)
							took := cost(f, e.repeats)
							if sizes[k] = float64(size); try == 0 || took < times[k] {
								times[k] = took
							}
						}
					}
				}
				b.Logf("ns per byte: %.1f", nsPerByte(sizes[:], times[:]))
				b.ReportMetric(0, "ns/op") // that of all sizes together says nothing
				b.ReportMetric(times[doublings]*1e3, "ms")
				b.ReportMetric(max(slope(sizes[:], times[:]), slope(sizes[doublings/2:], times[doublings/2:])), "exponent")
			})
		}
	}
}

// prepare returns one use of an entry, and the bytes of its text.
func (e entry) prepare(b *testing.B, in input, size, largest int) (int, func()) {
	if e.parts != nil {
		return size, e.parts(b, size, in.text(largest))
	}
	text := in.text(size)
	return len(text), e.open(b, text)
}

// cost returns the seconds of processor time that f takes. If they are few it repeats f, if that
// changes nothing.
func cost(f func(), repeats bool) float64 {
	runtime.GC() // and none while f runs: how much it costs depends on the size of the heap
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 << 30))
	const enough = 2 * time.Millisecond // the clock of the processor is coarse
	n, before := 0, processor()
	for {
		f()
		n++
		if used := processor() - before; used >= enough || n == 1000 || !repeats {
			return max(used.Seconds(), 1e-9) / float64(n)
		}
	}
}

func processor() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func nsPerByte(sizes, times []float64) (all []float64) {
	for i, t := range times {
		all = append(all, t*1e9/sizes[i])
	}
	return all
}

// slope returns the exponent of y in x: the slope of the line through their logarithms.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		a, b := math.Log(x[i]), math.Log(y[i])
		sx, sy, sxx, sxy = sx+a, sy+b, sxx+a*a, sxy+a*b
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
