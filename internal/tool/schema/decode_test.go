package schema

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestDecodeObjectKeepsOrder(t *testing.T) {
	const text = `{"z":1.50,"a":{"y":[{"d":null,"c":"<é>"}],"b":true},"m":[]}`
	o, err := DecodeObject(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := o.MarshalJSON(); err != nil || !json.Valid(got) || compact(t, got) != text {
		t.Errorf("%s, %v", got, err)
	}
	if o.Get("m") == nil || o.Get("nothing") != nil {
		t.Error(o)
	}
	if got, err := json.Marshal(o.Map()); err != nil || string(got) != `{"a":{"b":true,"y":[{"c":"\u003cé\u003e","d":null}]},"m":[],"z":1.50}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `[1]`, `{"a":1} {}`, `{"a":`} {
		if _, err := DecodeObject(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was decoded", bad)
		}
	}
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
