package rawjson_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

var samples = []string{
	``, ` `, `{}`, `[]`, ` [ ] `, `{ }`, `null`, `true`, `false`, `nul`, `truex`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`,
	`1e`, `1e+`, `-1.5e-10`,
	`""`, `"a`, `"\n"`, `"\x"`, `"\u00e9"`, `"\u00g9"`, `"\u12"`, `"\`, "\"\n\"", "\"\x00\"", `"é"`, "\"\xff\"", `"\ud83d\ude00"`,
	`"\ud83d"`, `"\ude00x"`, `"\ud83dA"`, `"\/\b\f\r\t\"\\"`,
	`{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,"b":[1,{"c":"d\"}"}]}`, `[1,2`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1]`, `[1}`,
	`1 2`, `[[[[]]]]`, ` {"b" : [ 1 , {} ] , "a":{"b":{}}, "b":"x" } `, `{"a":{"b":{}}} `, `[{}]]`,
	"\u00a01", "\ufeff1", `[1,"x",null,true,{"y":[]}]`,
}

func TestValidAgreesWithEncodingJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, s := range append(samples, deep(9_999), deep(10_000), deep(10_001), strings.Repeat(`{"a":`, 70)+"1"+strings.Repeat("}", 70)) {
		checkValid(t, s)
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	f.Fuzz(checkValid)
}

// checkValid compares Valid and Unquote with encoding/json, and calls the functions that
// require valid JSON, which must not panic.
func checkValid(t *testing.T, s string) {
	if got, want := rawjson.ValidString(s), json.Valid([]byte(s)); got != want {
		t.Errorf("ValidString(%.80q) = %v", s, got)
	}
	var text string
	isString := strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil
	if got, ok := rawjson.Unquote([]byte(s)); ok != isString || ok && got != text {
		t.Errorf("Unquote(%.80q) = %q, %v, want %q", s, got, ok, text)
	}
	if isString && utf8.ValidString(s) {
		var b strings.Builder
		if err := rawjson.UnquoteTo(&b, []byte(s)); err != nil || b.String() != text {
			t.Errorf("UnquoteTo(%.80q) wrote %q, %v, want %q", s, b.String(), err, text)
		}
	}
	if isString && utf8.ValidString(s) {
		inner := string(rawjson.Unescape([]byte(s[1 : len(s)-1])))
		if got := strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inner); got != text {
			t.Errorf("Unescape(%.80q) = %q, want %q", s, inner, text)
		}
	}
	for i := range min(len(s), 20) { // of any part, it must not panic
		_ = rawjson.Unescape([]byte(s[i:]))
		_ = rawjson.Unescape([]byte(s[:i]))
	}
	if values, ok := rawjson.ValidMembers([]byte(s), "a", "b"); ok {
		want, isObject := rawjson.Members([]byte(s), "a", "b")
		if !json.Valid([]byte(s)) || !isObject || !reflect.DeepEqual(values, want) {
			t.Errorf("ValidMembers(%.80q) = %q, want %q, %v", s, values, want, isObject)
		}
	} else if _, isObject := rawjson.Members([]byte(s)); isObject && json.Valid([]byte(s)) {
		t.Errorf("ValidMembers(%.80q) returns false", s)
	}
	_ = rawjson.EachItem([]byte(s), func([]byte) bool { return true })
	_ = rawjson.EachMember([]byte(s), func(_, _ []byte) bool { return true })
}

func TestScanReturnsDepth(t *testing.T) {
	for s, want := range map[string]int{`1`: 0, `[]`: 1, `{"a":[{}]}`: 3, `[[],[[]]]`: 3} {
		if depth, ok := rawjson.Scan([]byte(s)); depth != want || !ok {
			t.Errorf("Scan(%s) = %d, %v, want %d", s, depth, ok, want)
		}
	}
}

func TestEachMemberAndItem(t *testing.T) {
	var got []string
	err := rawjson.EachMember([]byte(` {"a" : "x\"}" , "b":[1, {"c":2}],"d":null}`)[1:], func(k, v []byte) bool {
		got = append(got, string(k)+string(v))
		return true
	})
	if err != nil || strings.Join(got, " ") != `"a""x\"}" "b"[1, {"c":2}] "d"null` {
		t.Errorf("got %q, %v", got, err)
	}
	got = nil
	err = rawjson.EachItem([]byte(`[ 1,"a,b" ,[2,3],{}]`), func(v []byte) bool {
		got = append(got, string(v))
		return len(got) < 3
	})
	if err != nil || strings.Join(got, " ") != `1 "a,b" [2,3]` {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestMembersFindsEscapedAndRepeatedKeys(t *testing.T) {
	m, ok := rawjson.Members([]byte(` {"\u0069d":1,"a\\b":2,"id2":3,"other":4,"id2":5}`), "id", `a\b`, "id2", "absent")
	var got []string
	for _, v := range m {
		got = append(got, string(v))
	}
	if want := "1 2 5 "; !ok || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v, want %q", got, ok, want)
	}
}

var row = []byte("[" + strings.Repeat(`{"id":123,"name":"Customer 00001","email":"customer1@example.com","amount":17.25,"note":"lorem `+
	`ipsum lorem ipsum \"dolor\""},`, 8000) + "1]")

// quoted is row as the text of a string.
var quoted, _ = json.Marshal(string(row))

func BenchmarkValid(b *testing.B) { benchmark(b, func(v []byte) { rawjson.Valid(v) }) }

func benchmark(b *testing.B, f func(v []byte)) {
	for name, v := range map[string][]byte{"rows": row, "string": quoted} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(v)))
			for b.Loop() {
				f(v)
			}
		})
	}
}

func BenchmarkEncodingJSON(b *testing.B) {
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		json.Valid(row)
	}
}

func BenchmarkUnquote(b *testing.B) {
	b.SetBytes(int64(len(quoted)))
	for b.Loop() {
		rawjson.Unquote(quoted)
	}
}

func BenchmarkValueEnd(b *testing.B) { benchmark(b, func(v []byte) { _, _ = rawjson.ValueEnd(v, 0) }) }
