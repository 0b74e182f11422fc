package shape_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

func describe(t *testing.T, in string, limit int) string {
	t.Helper()
	p, err := shape.Describe([]byte(in), limit, nil)
	if err != nil {
		t.Fatalf("%.60s: %v", in, err)
	}
	out, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestDescribe(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"null", ` null `, `{"type":"null","value":null}`},
		{"integer", `12`, `{"type":"integer","value":12}`},
		{"number", `-1.5e3`, `{"type":"number","value":-1.5e3}`},
		{"string with escapes", `"a\"b\ud83d\ude00é\n"`, `{"type":"string","chars":6,"value":"a\"b😀é\n"}`},
		{"empty array", `[]`, `{"type":"array","count":0}`},
		{"empty object", `{}`, `{"type":"object","count":0}`},
		{"numbers", `[3, 1, 2.5, null]`, `{"type":"array","count":4,"items":{"type":"number","nulls":1,"min":1,"max":3,"mean":2.16667},"first":[3,1,2.5,null]}`},
		{"strings", `["a","b","a"]`, `{"type":"array","count":3,"items":{"type":"string","distinct":2,"values":["a","b"]},"first":["a","b","a"]}`},
		{"mixed", `[1,"a",[],{"k":true}]`, `{"type":"array","count":4,"items":{"type":"array|integer|object|string","min":1,"max":1,"mean":1,"distinct":1,"values":["a"]},"columns":[{"name":"k","type":"boolean"}],"first":[1,"a",[],{"k":true}]}`},
		{"rows", `[{"id":1,"s":"x"},{"id":2,"s":null},{"id":6}]`,
			`{"type":"array","count":3,"items":{"type":"object"},"columns":[{"name":"id","type":"integer","min":1,"max":6,"mean":3},{"name":"s","type":"string","nulls":1,"missing":1,"distinct":1,"values":["x"]}],"first":[{"id":1,"s":"x"},{"id":2,"s":null},{"id":6}]}`},
		{"an object around rows", `{"total": 2, "rows": [{"a": 1}, {"a": 2}], "o": {"k": {"deep": [1]}}}`,
			`{"type":"object","count":3,"keys":[{"name":"total","type":"integer","value":2},` +
				`{"name":"rows","type":"array","count":2,"items":{"type":"object"},"columns":[{"name":"a","type":"integer","min":1,"max":2,"mean":1.5}],"first":[{"a":1},{"a":2}]},` +
				`{"name":"o","type":"object","count":1,"keys":[{"name":"k","type":"object","count":1}]}]}`},
		{"a number too long to add up", `[` + strings.Repeat("9", 100) + `]`,
			`{"type":"array","count":1,"items":{"type":"integer"},"first":["999999999999999999999999… (100 digits)"]}`},
		{"beyond float64", `[1e999, 1.7e308, 1.7e308]`, `{"type":"array","count":3,"items":{"type":"number","min":1.7e+308,"max":1.7e+308,"mean":1.7e+308},"first":[1e999,1.7e308,1.7e308]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, describe(t, tc.in, 0)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDescribeAbridges(t *testing.T) {
	got := describe(t, `[{"text":"`+strings.Repeat("é", 5000)+`","list":[`+strings.Repeat("1,", 99)+`1],"deep":{"a":{"b":{"c":{"d":1}}}}}]`,
		0)
	for _, want := range []string{"é… (5000 characters)", `"… 88 more"`, `"{… 1 keys}"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

func TestDescribeLimitsDistinctCount(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,{"id":"u%d","kind":"k%d"}`, i, i%3)
	}
	got := describe(t, "["+b.String()[1:]+"]", 0)
	for _, want := range []string{`"name":"id","type":"string","distinct_over":1000`,
		`"name":"kind","type":"string","distinct":3,"values":["k0","k1","k2"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

// hostile returns inputs that try to increase size, time or memory.
func hostile() map[string]string {
	var keys, cols, nested, many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&keys, `,"key%d":{"a":[{"b":%d}]}`, i, i)
		fmt.Fprintf(&cols, `,{"col%d":"%d"}`, i, i)
	}
	for i := range 64 {
		fmt.Fprintf(&nested, `,"k%d":[`, i)
		for j := range 500 {
			fmt.Fprintf(&nested, `{"c%d":"v%d","d":"%d"},`, j%70, j, j)
		}
		nested.WriteString(`{}]`)
	}
	for i := range 200_000 {
		fmt.Fprintf(&many, `,"%d"`, i)
	}
	longKey := `"` + strings.Repeat(`\u0001`, 1<<20) + `"`
	return map[string]string{
		"100k keys":            "{" + keys.String()[1:] + "}",
		"100k columns":         "[" + cols.String()[1:] + "]",
		"arrays in keys":       "{" + nested.String()[1:] + "}",
		"200k strings":         "[" + many.String()[1:] + "]",
		"a long key":           `{` + longKey + `:1}`,
		"a long column":        `[{` + longKey + `:1},{"a":2}]`,
		"rows of long escapes": `[` + strings.Repeat(`{"\u0000\u0001":"`+strings.Repeat(`\u0002<&>`, 1000)+`"},`, 9) + `{}]`,
		"a deep array":         strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20),
		"a deep object":        strings.Repeat(`{"a":`, 1<<18) + "1" + strings.Repeat("}", 1<<18),
		"a long string":        `"` + strings.Repeat("😀", 1<<20) + `"`,
		"lone surrogates":      `["` + strings.Repeat(`\ud83d`, 1<<16) + `"]`,
		"backslashes":          `["` + strings.Repeat(`\\`, 1<<20) + `"]`,
		"escaped quotes":       `["` + strings.Repeat(`\"`, 1<<20) + `"]`,
		"a long number":        `[` + strings.Repeat("1", 1<<20) + `]`,
	}
}

func TestDescribeIsBoundedAndDeterministic(t *testing.T) {
	for name, in := range hostile() {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{0, 1, 256, 1000, 16384} {
				got := describe(t, in, limit)
				if most := map[int]int{0: shape.DefaultBytes, 1: 256}[limit]; len(got) > max(most, limit) {
					t.Errorf("limit %d: %d bytes: %s", limit, len(got), got)
				}
				if again := describe(t, in, limit); again != got {
					t.Errorf("limit %d: first %s, then %s", limit, got, again)
				}
			}
		})
	}
}

func TestDescribeUsesLittleMemory(t *testing.T) {
	in := []byte("[" + strings.Repeat(`{"name":"somebody","n":12345,"tags":["a","b"]},`, 400_000) + "{}]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := shape.Describe(in, 0, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > uint64(len(in))/4 {
		t.Errorf("allocated %d bytes for an input of %d bytes", used, len(in))
	}
}

func TestDescribeRejectsInvalidJSON(t *testing.T) {
	for _, in := range []string{"", "  ", "[", `{"a`, `{"a"`, `{"a":`, `{"a":}`, `{1:2}`, `[1}`, "]", "1 2", ",", `["\`, `[,]`} {
		if p, err := shape.Describe([]byte(in), 0, nil); err == nil {
			t.Errorf("%q: %+v", in, p)
		}
	}
}

// FuzzDescribe checks that Describe returns for any input, that the size of its
// preview is bounded, and that it accepts valid JSON.
func FuzzDescribe(f *testing.F) {
	for _, s := range []string{`[{"a":1,"b":"x"},{"a":null}]`, `{"k":[1,2,"\ud83d\ude00"]}`, `"\"`, `[}`, `[1e5,-0]`,
		`{"a":{"b":{"c":[]}}}`} {
		f.Add([]byte(s), 0)
	}
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit > 1<<16 {
			limit = 1 << 16
		}
		p, err := shape.Describe(in, limit, nil)
		if err != nil {
			if json.Valid(in) {
				t.Fatalf("Describe rejected valid JSON: %v", err)
			}
			return
		}
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if most := max(limit, 256); limit != 0 && len(out) > most || limit == 0 && len(out) > shape.DefaultBytes {
			t.Fatalf("%d bytes for limit %d", len(out), limit)
		}
	})
}

func BenchmarkDescribe(b *testing.B) {
	in := []byte("[" + strings.Repeat(`{"name":"somebody","n":12345,"tags":["a","b"]},`, 100_000) + "{}]")
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := shape.Describe(in, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}
