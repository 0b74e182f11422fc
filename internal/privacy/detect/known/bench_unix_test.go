//go:build unix

package known_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

// BenchmarkFind reports MB per second of processor time on a text without values.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		x := people(n)
		for _, c := range []struct{ name, text string }{{"rows", rows(4 << 20)}, {"prose", prose(4 << 20)}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) { benchmark(b, x, c.text, false) })
		}
	}
}

// BenchmarkHostile searches for values that nearly match the text everywhere.
func BenchmarkHostile(b *testing.B) {
	for _, c := range []struct {
		name, unit string
		value      func(i int) string
	}{
		{"nested", "a ", func(i int) string { return strings.Repeat("a ", i%500+3) + "x" }},
		{"ends", "a.", func(i int) string { return strings.Repeat("a.", i%8000+3) + "x" }},
		{"beginnings", "same beginning ", func(i int) string { return fmt.Sprintf("same beginning of %d", i) }},
		{"digits", "1 ", func(i int) string { return fmt.Sprintf("1111111%d2", i) }},
		{"marks", "....", func(i int) string { return strings.Repeat(".", i%500+3) + "x" }},
		{"words", "Grace ", func(i int) string { return "Grace" + fmt.Sprintf("%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26) }},
	} {
		x := known.New(100_000)
		for i := range 100_000 {
			x.Add("KNOWN", c.value(i))
		}
		text := strings.Repeat(c.unit, 4<<20/len(c.unit))
		b.Run(c.name, func(b *testing.B) { benchmark(b, x, text, false) })
	}
}

// BenchmarkAdd reports the memory of a value in addition to its own bytes.
func BenchmarkAdd(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := people(100_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for i := 0; b.Loop(); i++ {
		x.Add("KNOWN", fmt.Sprintf("value %d", i))
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/100_000-25, "B/value")
}

func benchmark(b *testing.B, x *known.Index, text string, hits bool) {
	b.SetBytes(int64(len(text)))
	before := processor()
	for b.Loop() {
		if found := x.Find(text); len(found) > 0 != hits {
			b.Fatalf("found %d", len(found))
		}
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

// people returns addresses, names and telephone numbers of about 25 bytes.
func people(n int) *known.Index {
	r := rand.New(rand.NewPCG(1, 2))
	x := known.New(100_000)
	for i := range n {
		switch a, z := word(r), word(r); i % 3 {
		case 0:
			x.Add("EMAIL", fmt.Sprintf("%s.%s%d@%s.example", a, z, i, word(r)))
		case 1:
			x.Add("NAME", fmt.Sprintf("%s%s %s%s", strings.ToUpper(a[:1]), a[1:], strings.ToUpper(z[:1]), z[1:]))
		case 2:
			x.Add("PHONE", fmt.Sprintf("+1 %03d-%03d-%04d", 200+r.IntN(800), 200+r.IntN(800), r.IntN(10000)))
		}
	}
	return x
}

func word(r *rand.Rand) string {
	b := make([]byte, 5+r.IntN(6))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

func rows(size int) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"uuid":"%016x","name":"Customer `+
			`%d","status":"active","amount":%d.%02d,"created_at":"2026-%02d-%02dT%02d:%02d:00Z","description":"A record that was `+
			`imported from the archive"},`,
			100000+i, r.Uint64(), i, r.IntN(10000), r.IntN(100), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60))
	}
	return b.String()
}

func prose(size int) string {
	words := strings.Fields(`The quick review of this change shows that the parser now accepts empty input and returns a clear error instead of a panic. We should
		add a test for nested lists, update the documentation, and mention the new option in the changelog before the release on Monday.`)
	r := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}
