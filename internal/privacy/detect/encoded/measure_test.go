package encoded_test

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
)

// TestFalsePositivesInOrdinaryText counts findings in texts without encoded values: the
// development cases of detection, tool definitions of servers, test files of this
// repository, and its sources.
func TestFalsePositivesInOrdinaryText(t *testing.T) {
	f := finderWithValues(t)
	for _, c := range []struct {
		name  string
		texts []string
		most  int
	}{
		{"cases", lines(t, "../../../../../shared/data/pii/cases-dev.jsonl.gz"), 12},
		{"definitions", lines(t, "../../../../../shared/data/search/tools.jsonl.gz"), 0},
		{"testdata", files(t, "../..", "testdata"), 4},
		{"documents", files(t, "../../../../docs", ""), 0},
	} {
		n, size := 0, 0
		for _, text := range c.texts {
			size += len(text)
			for _, one := range f.Find(text) {
				n++
				t.Logf("%s: %s %.2f %.80q", c.name, one.Type, one.Score, text[one.Start:one.End])
			}
		}
		t.Logf("%s: %d texts, %d bytes, found %d", c.name, len(c.texts), size, n)
		if n > c.most {
			t.Errorf("%s: found %d, want at most %d", c.name, n, c.most)
		}
	}
	for _, c := range ordinaryTexts(1 << 20) {
		if found := f.Find(c.text); len(found) > 0 {
			t.Errorf("%s: found %+v", c.name, found)
		}
	}
}

// lines returns the field "text" of each line of JSON, or the line itself.
func lines(t *testing.T, name string) (texts []string) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("missing: %s", name)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var c struct{ Text string }
		if json.Unmarshal(s.Bytes(), &c) != nil || c.Text == "" {
			c.Text = s.Text()
		}
		texts = append(texts, c.Text)
	}
	return texts
}

// files returns the files below root whose path contains a directory of that name.
func files(t *testing.T, root, folder string) (texts []string) {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || folder != "" && !strings.Contains(filepath.ToSlash(path), "/"+folder+"/") {
			return err
		}
		b, err := os.ReadFile(path)
		texts = append(texts, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// finderWithValues returns a Finder with 2,000 known values.
func finderWithValues(t testing.TB) encoded.Finder {
	s, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := known.New(10_000)
	for i := range 1000 {
		x.Add(detect.Email, fmt.Sprintf("%s.%s@%s.example", word(r), word(r), word(r)))
		x.Add(detect.Phone, fmt.Sprintf("+1 %03d-%03d-%04d", 200+r.IntN(800), 200+r.IntN(800), i))
	}
	return encoded.Finder{Scan: s.Scan, Known: x.Find, Squeezed: x.FindSqueezed, Joined: x.FindJoined}
}

func word(r *rand.Rand) string {
	b := make([]byte, 4+r.IntN(6))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

type named struct{ name, text string }

// ordinaryTexts returns typical tool results without encoded values.
func ordinaryTexts(size int) []named {
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
			return fmt.Sprintf(`{"id":%d,"uuid":"%08x-%04x-4%03x-a%03x-%012x","name":"Customer `+
				`%d","status":"active","email":"user%d@example.com","amount":%d.%02d,"created_at":"2026-%02d-%02dT%02d:%02d:%02dZ","tags":["alpha","beta"],"description":"A record that was imported from the archive of the previous system"},`,
				r.IntN(1e6), r.Uint32(), r.IntN(65536), r.IntN(4096), r.IntN(4096), r.Int64N(1<<48), r.IntN(1e6), r.IntN(1e6),
				r.IntN(10000), r.IntN(100), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
		})},
		{"log", made(func() string {
			return fmt.Sprintf("2026-11-%02dT%02d:%02d:%02d.%03dZ INFO  request completed method=GET path=/api/v2/items/%d status=200 "+
				"duration=%dms bytes=%d remote=10.%d.%d.%d agent=\"Mozilla/5.0 (X11; Linux x86_64)\"\n",
				1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000), r.IntN(1e6), r.IntN(900), r.IntN(1e5), r.IntN(256),
				r.IntN(256), r.IntN(256))
		})},
		{"prose", made(func() string { return words[r.IntN(len(words))] + " " })},
		{"hashes", made(func() string {
			return fmt.Sprintf("%016x%016x%08x  %s-%s.tar.gz\n", r.Uint64(), r.Uint64(), r.Uint32(), word(r), word(r))
		})},
		{"numbers", made(func() string {
			return fmt.Sprintf("%d, %d,%d\t%.3f\n", r.IntN(10), r.IntN(100), r.IntN(1e6), r.Float64())
		})},
		{"nested JSON", made(func() string {
			b, err := json.Marshal(fmt.Sprintf("{\"title\": \"%s %s\",\n \"body\": \"%s\"}\n", words[r.IntN(len(words))],
				words[r.IntN(len(words))], strings.Join(words[:r.IntN(len(words))], " ")))
			if err != nil {
				panic(err)
			}
			return string(b)
		})},
		{"image", base64.StdEncoding.EncodeToString(image)},
	}
}

func TestFindInHostileText(t *testing.T) {
	f := finderWithValues(t)
	f.Known = finder(t, "Ada Lovelace").Known
	for _, unicodeEscape := range hostile {
		text := strings.Repeat(unicodeEscape, 150<<10/len(unicodeEscape)) + "\n (QWRhIExvdmVsYWNl) " + strings.Repeat(unicodeEscape,
			150<<10/len(unicodeEscape))
		found := f.Find(text)
		check(t, text, found)
		at := strings.Index(text, " (QWRh") + 2
		if uncovered(found, at, at+16) > 0 {
			t.Errorf("%q: not found", unicodeEscape)
		}
	}
}

// hostile has units of texts that look encoded everywhere.
var hostile = []string{"A", "%41", "a b ", "a", "41", "f", `\u0041`, `\`, `\x41`, "%", "&#65;", "&", "&amp", "+", "a+", "a, ", "a,", "41:",
	"0x41, ", ", 0x", "' ", "'a', ", "\n",
	"QWRh", "QWRhIExvdmVsYWNl", strings.Repeat("QUFB", 19) + "\n", strings.Repeat("QUFB", 12) + "\n", "é", "é ", "\xff", "\xc3", "\x80",
	"\x00", "=", "1 ", "1, 2, ", "%E2%82", `\ud83d`, "\\n", "a@b.co ", "YUBiLmNv"}
