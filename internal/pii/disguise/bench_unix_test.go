//go:build unix

package disguise_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/pii"
	"github.com/sandpiper-mcp/sandpiper/internal/pii/disguise"
	"github.com/sandpiper-mcp/sandpiper/internal/pii/known"
)

// BenchmarkFind says how many MB of what tools answer a second of processor time
// is enough for, with 1,000 values known.
func BenchmarkFind(b *testing.B) {
	f := busy(b)
	all := ""
	for _, c := range ordinary(4 << 20) {
		b.Run(c.name, func(b *testing.B) { benchmark(b, f, c.text) })
		all += c.text
	}
	b.Run("all", func(b *testing.B) { benchmark(b, f, all) })
}

// BenchmarkHostile reads texts that look like a disguise everywhere.
func BenchmarkHostile(b *testing.B) {
	f := busy(b)
	for _, unit := range hostile {
		text := strings.Repeat(unit, 4<<20/len(unit))
		b.Run(fmt.Sprintf("%.12q", unit), func(b *testing.B) { benchmark(b, f, text) })
	}
}

// BenchmarkAcross has a character in each piece.
func BenchmarkAcross(b *testing.B) {
	f := busy(b)
	pieces := strings.Split(strings.Repeat("Nothing of note: ", 1<<20/17), "")
	b.SetBytes(1 << 20)
	for b.Loop() {
		f.Across(pieces)
	}
}

func benchmark(b *testing.B, f disguise.Finder, text string) {
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

func busy(t testing.TB) disguise.Finder {
	s, err := pii.New(pii.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := known.New(10_000)
	for i := range 1000 {
		x.Add(pii.Email, fmt.Sprintf("%s.%s@%s.example", word(r), word(r), word(r)))
		x.Add(pii.Phone, fmt.Sprintf("+1 %03d-%03d-%04d", 200+r.IntN(800), 200+r.IntN(800), i))
	}
	return disguise.Finder{Scan: s.Scan, Known: x.Find, Cut: x.FindCut}
}

func word(r *rand.Rand) string {
	b := make([]byte, 4+r.IntN(6))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

type named struct{ name, text string }

// ordinary are texts as tools answer them, without anything in disguise.
func ordinary(size int) []named {
	r := rand.New(rand.NewPCG(3, 4))
	made := func(one func() string) string {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(one())
		}
		return b.String()
	}
	words := strings.Fields(`The quick review of this change shows that the parser now accepts empty input and returns a clear error instead of a panic. We should
		add a test for nested lists, update the documentation, and mention the new option in the changelog before the release on Monday. See issue #1234`)
	image := make([]byte, size*3/4)
	for i := range image {
		image[i] = byte(r.Uint32())
	}
	return []named{
		{"rows", made(func() string {
			return fmt.Sprintf(`{"id":%d,"uuid":"%08x-%04x-4%03x-a%03x-%012x","name":"Customer %d","status":"active","email":"user%d@example.com","amount":%d.%02d,"created_at":"2026-%02d-%02dT%02d:%02d:%02dZ","tags":["alpha","beta"],"description":"A record that was imported from the archive of the previous system"},`,
				r.IntN(1e6), r.Uint32(), r.IntN(65536), r.IntN(4096), r.IntN(4096), r.Int64N(1<<48), r.IntN(1e6), r.IntN(1e6), r.IntN(10000), r.IntN(100), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
		})},
		{"log", made(func() string {
			return fmt.Sprintf("2026-11-%02dT%02d:%02d:%02d.%03dZ INFO  request completed method=GET path=/api/v2/items/%d status=200 duration=%dms bytes=%d remote=10.%d.%d.%d agent=\"Mozilla/5.0 (X11; Linux x86_64)\"\n",
				1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000), r.IntN(1e6), r.IntN(900), r.IntN(1e5), r.IntN(256), r.IntN(256), r.IntN(256))
		})},
		{"prose", made(func() string { return words[r.IntN(len(words))] + " " })},
		{"hashes", made(func() string {
			return fmt.Sprintf("%016x%016x%08x  %s-%s.tar.gz\n", r.Uint64(), r.Uint64(), r.Uint32(), word(r), word(r))
		})},
		{"numbers", made(func() string {
			return fmt.Sprintf("%d, %d,%d\t%.3f\n", r.IntN(10), r.IntN(100), r.IntN(1e6), r.Float64())
		})},
		{"nested JSON", made(func() string {
			b, err := json.Marshal(fmt.Sprintf("{\"title\": \"%s %s\",\n \"body\": \"%s\"}\n", words[r.IntN(len(words))], words[r.IntN(len(words))], strings.Join(words[:r.IntN(len(words))], " ")))
			if err != nil {
				panic(err)
			}
			return string(b)
		})},
		{"image", base64.StdEncoding.EncodeToString(image)},
	}
}

// hostile are what texts are made of that look like a disguise everywhere.
var hostile = []string{"A", "%41", "a b ", "a", "41", "f", `\u0041`, `\`, `\x41`, "%", "&#65;", "&", "&amp", "+", "a+", "a, ", "a,", "41:", "0x41, ", ", 0x", "' ", "'a', ", "\n",
	"QWRh", "QWRhIExvdmVsYWNl", strings.Repeat("QUFB", 19) + "\n", strings.Repeat("QUFB", 12) + "\n", "é", "é ", "\xff", "\xc3", "\x80", "\x00", "=", "1 ", "1, 2, ", "%E2%82", `\ud83d`, "\\n", "a@b.co ", "YUBiLmNv"}
