package redact

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// collect finds the values that a redaction replaces, in the same order, also if it reads and scans a text
// on several processors.
func TestCollectFindsWhatIsReplaced(t *testing.T) {
	s, err := detect.New(detect.Config{Patterns: []detect.Pattern{{Type: "BADGE", Expr: `\bB-\d{6}\b`}}})
	if err != nil {
		t.Fatal(err)
	}
	f := finder{scanner: s, exempt: func(_ detect.Type, v string) bool { return v == "8.8.8.8" }}
	find := search{find: f.detect, adjustKey: s.Person}
	turn := func(context.Context, int) (func(), error) { return func() {}, nil }
	whole := 0
	for name, text := range texts(t) {
		slow := &redaction{turn: turn, search: find}
		slow.findSpread = func([]string) []encoded.Spread { return nil } // reads the text before it searches it
		onProcessors(1, func() {
			if _, err := slow.run(t.Context(), "", text); err != nil {
				t.Fatal(err)
			}
		})
		fast := &collector{turn: turn, search: find}
		onProcessors(5, func() { fast.collect(text) })
		if d := cmp.Diff(slow.values, fast.values); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		whole += len(fast.values)
	}
	if whole < 20_000 {
		t.Errorf("%d values were compared", whole)
	}
}

// A text that is also a string in JSON is searched once, with the same values found.
func TestCollectAllSearchesSameTextOnce(t *testing.T) {
	s, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	searched := 0
	collect := func(texts ...string) map[vault.Value]int {
		c := &collector{turn: func(context.Context, int) (func(), error) { return func() {}, nil }}
		c.find = func(key, text string) []detect.Finding {
			searched += len(text)
			return s.Detect(key, text)
		}
		c.adjustKey = s.Person
		c.collectAll(texts)
		for v := range c.index {
			c.index[v] = 0 // the order does not count
		}
		return c.index
	}
	keys := `{"result":{"ada@example.com":1,"phone":"212-555-0123"},"bob@example.com":[{"email":"` + strings.Repeat(`x`,
		1000) + `@example.com"}]}`
	deep := `"eve@example.com"`
	for range maxDepth {
		deep = encode(t, []string{deep})
		deep = encode(t, deep)
	}
	for name, c := range map[string]struct {
		text string
		once bool
	}{"JSON": {keys, true}, "deep JSON": {"[" + deep + "]", true}, "text": {"bob@example.com 078-05-1120", false}} {
		for key, whole := range map[string]string{"same": c.text, "string": encode(t, map[string]any{"ssn": c.text, "id": 1}),
			"list": encode(t, []any{c.text, c.text})} {
			want := collect(c.text)
			maps.Copy(want, collect(whole))
			searched = 0
			collect(whole)
			alone := searched
			searched = 0
			got := collect(whole, c.text)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, %s: %s", name, key, d)
			}
			if once := searched == alone; once != (c.once || key == "same") {
				t.Errorf("%s, %s: %d bytes were searched, %d without the text", name, key, searched, alone)
			}
		}
	}
}

func onProcessors(n int, f func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

// texts returns the texts of the corpora, alone and together in JSON, and texts with values at the
// borders of the parts that the processors scan.
func texts(t *testing.T) map[string]string {
	all := map[string]string{}
	var lines []string
	files, err := filepath.Glob("../detect/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("«", "", "»", "").Replace(string(b))
		all[file] = strings.Repeat(text, 300_000/len(text)+1)
		lines = append(lines, strings.Split(text, "\n")...)
	}
	lines = append(lines, cases(t)...)
	lists, _ := filepath.Glob("../../../../shared/data/toolslists/*.json")
	for _, file := range lists {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(b)
	}
	all["strings"] = encode(t, lines)
	all["text in an object"] = encode(t, map[string]string{"text": strings.Join(lines, "\n")})
	plain := slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return strings.ContainsAny(l, `"\<>&{}[]`) || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' })
	})
	all["strings without escapes"] = encode(t, slices.Concat(plain, plain, plain, plain))
	var rows, keys, nested []any
	for i, l := range lines {
		rows = append(rows, map[string]any{"id": i, "name": "Ada Lovelace", "note": l, "ssn": 219_09_9000 + i%1000,
			"phone": []any{2125550100 + i, l}})
		keys = append(keys, map[string]any{l: l, "email": map[string]any{fmt.Sprintf("u%d@example.com", i): i}})
		nested = append(nested, encode(t, map[string]any{"body": encode(t, []any{l, i}), "to": fmt.Sprintf("u%d@example.com", i)}))
	}
	all["rows"], all["keys"], all["JSON in strings"] = encode(t, rows), encode(t, keys), encode(t, nested)
	for shift := 0; shift < 40; shift += 7 { // the last are scanned in several rounds
		var b strings.Builder
		b.WriteString(`["` + strings.Repeat("x", shift) + `"`)
		for i := 0; b.Len() < 300_000+shift*100_000; i++ {
			fmt.Fprintf(&b, `,{"full_name":"Grace Hopper","n":%d,"to":["u%d@example.com",2125550100,"4111 1111 1111 1111"]}`, i, i)
		}
		all[fmt.Sprintf("borders %d", shift)] = b.String() + "]"
	}
	return all
}

func encode(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// cases returns the texts of the development cases, if they are there.
func cases(t *testing.T) (all []string) {
	f, err := os.Open("../../../../shared/data/pii/cases-dev.jsonl.gz")
	if err != nil {
		return nil
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c.Text)
	}
	return all
}
