//go:build unix

package detect_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// BenchmarkScan reports MB per second of processor time on typical tool results with
// all rules.
func BenchmarkScan(b *testing.B) {
	texts := map[string]string{"rows": rows(4 << 20), "log": logs(4 << 20), "prose": prose(4 << 20), "ids": ids(4 << 20)}
	if t := definitions(b); t != "" {
		texts["definitions"] = t
	}
	all := ""
	for _, name := range []string{"rows", "log", "prose", "ids", "definitions"} {
		if text := texts[name]; text != "" {
			b.Run(name, func(b *testing.B) { benchmark(b, scanner(b), text) })
			b.Run(name+"/names", func(b *testing.B) { benchmark(b, proseScanner(b), text) })
			all += text[:min(len(text), 4<<20)]
		}
	}
	b.Run("all", func(b *testing.B) { benchmark(b, scanner(b), all) })
	b.Run("all/names", func(b *testing.B) { benchmark(b, proseScanner(b), all) })
}

// BenchmarkHostile scans texts that almost match a rule everywhere.
func BenchmarkHostile(b *testing.B) {
	for name, unit := range hostile {
		text := strings.Repeat(unit, 4<<20/len(unit))
		b.Run(name, func(b *testing.B) { benchmark(b, scanner(b), text) })
		b.Run(name+"/names", func(b *testing.B) { benchmark(b, proseScanner(b), text) })
	}
}

func benchmark(b *testing.B, s *detect.Scanner, text string) {
	s.Scan("Ada") // reads the list of names
	b.SetBytes(int64(len(text)))
	before := processor()
	for b.Loop() {
		s.Scan(text)
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

// rows returns a table as JSON with personal data in some columns.
func rows(size int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"uuid":"%08x-%04x-4%03x-a%03x-%012x","name":"Customer `+
			`%d","status":"active","email":"user%d@example.com","phone":"+1 `+
			`415-555-%04d","amount":%d.%02d,"created_at":"2026-%02d-%02dT%02d:%02d:%02dZ","tags":["alpha","beta","gamma"],"description":"A record that was imported from the archive of the previous system"},`,
			100000+i, r.Uint32(), r.IntN(65536), r.IntN(4096), r.IntN(4096), r.Int64N(1<<48), i, i, i%10000, r.IntN(10000), r.IntN(100),
			1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
	}
	return b.String()
}

// logs returns log lines of a server.
func logs(size int) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "2026-11-%02dT%02d:%02d:%02d.%03dZ INFO  request completed method=GET path=/api/v2/items/%d status=200 "+
			"duration=%dms bytes=%d remote=10.%d.%d.%d agent=\"Mozilla/5.0 (X11; Linux x86_64)\"\n",
			1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000), r.IntN(1e6), r.IntN(900), r.IntN(1e5), r.IntN(256), r.IntN(256),
			r.IntN(256))
	}
	return b.String()
}

// prose returns text as in issues and pages.
func prose(size int) string {
	words := strings.Fields(`The quick review of this change shows that the parser now accepts empty input and returns a clear error instead of a panic. We should
		add a test for nested lists, update the documentation, and mention the new option in the changelog before the release on Monday. See issue #1234 for the
		discussion; thanks to everybody who helped. Next steps: measure memory, then decide whether the cache stays.`)
	r := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}

// ids returns commits as indented JSON.
func ids(size int) string {
	r := rand.New(rand.NewPCG(7, 8))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "  {\n    \"sha\": \"%016x%016x%08x\",\n    \"number\": %d,\n    \"url\": "+
			"\"https://api.example.com/repos/acme/app/commits/%08x\",\n    \"message\": \"fix the thing\",\n    \"author\": {\n      "+
			"\"login\": \"octo\",\n      \"id\": %d\n    }\n  },\n",
			r.Uint64(), r.Uint64(), r.Uint32(), r.IntN(1e6), r.Uint32(), r.IntN(1e8))
	}
	return b.String()
}

// definitions returns tool definitions of real servers.
func definitions(b *testing.B) string {
	f, err := os.Open(filepath.Join("../../../../shared/data/search/tools.jsonl.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if json.Valid(lines.Bytes()) {
			text.Write(lines.Bytes())
			text.WriteByte('\n')
		}
	}
	return text.String()
}
