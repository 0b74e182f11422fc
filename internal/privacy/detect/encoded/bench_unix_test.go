//go:build unix

package encoded_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// BenchmarkFind reports MB per second of processor time on tool results with 2,000
// known values.
func BenchmarkFind(b *testing.B) {
	f := finderWithValues(b)
	all := ""
	for _, c := range ordinaryTexts(4 << 20) {
		b.Run(c.name, func(b *testing.B) { benchmark(b, f, c.text) })
		all += c.text
	}
	b.Run("all", func(b *testing.B) { benchmark(b, f, all) })
}

// BenchmarkSmall searches short strings, the most frequent case.
func BenchmarkSmall(b *testing.B) {
	f := finderWithValues(b)
	for _, text := range []string{"active", "2026-11-02T10:20:30Z", "Customer 1234",
		"fix the thing that was wrong with the parser of nested lists", "https://api.example.com/repos/acme/app/commits/0a1b2c3d"} {
		b.Run(fmt.Sprintf("%.20q", text), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.Find(text)
			}
		})
	}
}

// BenchmarkHostile searches texts that look encoded everywhere.
func BenchmarkHostile(b *testing.B) {
	f := finderWithValues(b)
	for _, unicodeEscape := range hostile {
		text := strings.Repeat(unicodeEscape, 4<<20/len(unicodeEscape))
		b.Run(fmt.Sprintf("%.12q", unicodeEscape), func(b *testing.B) { benchmark(b, f, text) })
	}
}

// BenchmarkAcross searches pieces of one character.
func BenchmarkAcross(b *testing.B) {
	f := finderWithValues(b)
	pieces := strings.Split(strings.Repeat("Nothing of note: ", 1<<20/17), "")
	b.SetBytes(1 << 20)
	for b.Loop() {
		f.Across(pieces)
	}
}

func benchmark(b *testing.B, f encoded.Finder, text string) {
	b.SetBytes(int64(len(text)))
	before := processor()
	for b.Loop() {
		f.Find(text)
	}
	b.ReportMetric(float64(len(text))*float64(b.N)/1e6/(processor()-before).Seconds(), "MB/CPU-s")
}

func processor() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
