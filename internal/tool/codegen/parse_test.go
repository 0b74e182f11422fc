package codegen

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// plainly converts a parsed value to the types of encoding/json.
func plainly(v any) any {
	switch v := v.(type) {
	case *object:
		m := map[string]any{}
		for i, k := range v.keys {
			m[k] = plainly(v.values[i])
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plainly(v[i])
		}
		return list
	}
	return v
}

// FuzzParse checks that parse agrees with encoding/json.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{}`, ` [ ] `, `{"a":{"b":[1,-2.5e+3,true,false,null,"x"]},"a":2}`, `"\u00e9\ud83d\ude00\ud800\"\\/\n"`, "\"\xff\"", `0`, ``, `{`,
		`1 2`, `nul`,
		"{\"\t\":1}", `{"":""," ":[[]]}`, strings.Repeat(`[`, 90) + strings.Repeat(`]`, 90), `{"k` + strings.Repeat(`":1,"k`, 40) + `":2}`,
		"\ufeff{}",
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"a":9,"r":8}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parse(raw)
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var want any
		if !json.Valid(raw) {
			if err == nil {
				t.Fatal("parse accepts invalid JSON")
			}
			return
		}
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(raw), "[")+strings.Count(string(raw), "{") > maxJSONDepth {
			return // values that are nested too deeply are ignored
		}
		// cmp.Diff takes exponential time in the nesting depth.
		if !reflect.DeepEqual(want, plainly(got)) || err != nil {
			t.Errorf("%v, %v; want %v", plainly(got), err, want)
		}
	})
}
