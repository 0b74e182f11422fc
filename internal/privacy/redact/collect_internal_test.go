package redact

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
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

// collect finds the values that a pass replaces, in the same order, also if it reads and scans a text
// on several processors.
func TestCollectFindsWhatIsReplaced(t *testing.T) {
	s, err := detect.New(detect.Config{Patterns: []detect.Pattern{{Type: "BADGE", Expr: `\bB-\d{6}\b`}}})
	if err != nil {
		t.Fatal(err)
	}
	newPass := func() *pass {
		f := finder{scanner: s, exempt: func(_ detect.Type, v string) bool { return v == "8.8.8.8" }}
		return &pass{turn: func(context.Context, int) (func(), error) { return func() {}, nil }, search: search{find: f.detect, adjustKey: s.Person}}
	}
	whole := 0
	for name, text := range texts(t) {
		slow := newPass()
		slow.findSpread = func([]string) []encoded.Spread { return nil } // reads the text before it searches it
		onProcessors(1, func() {
			if _, err := slow.run(t.Context(), "", text); err != nil {
				t.Fatal(err)
			}
		})
		var got []vault.Value
		onProcessors(5, func() { got = newPass().collect(text) })
		if d := cmp.Diff(slow.values, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		whole += len(got)
	}
	if whole < 20_000 {
		t.Errorf("%d values were compared", whole)
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
		rows = append(rows, map[string]any{"id": i, "name": "Ada Lovelace", "note": l, "ssn": 219_09_9000 + i%1000, "phone": []any{2125550100 + i, l}})
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
