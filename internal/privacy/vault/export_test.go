package vault_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

func TestExportWritesEveryValue(t *testing.T) {
	p := newTestDir(t)
	ttl := func(c *vault.Config) { c.TTL = map[detect.Type]time.Duration{detect.Email: time.Hour} }
	v := p.open(t, "a", ttl)
	values := []vault.Value{email("<ada>@example.com"), {Type: detect.SSN, Text: "078051120", Number: true},
		{Type: detect.Name, Text: "\xff"}}
	tokens := tokenize(t, v, "s", values...)
	tokenize(t, v, "r", values[0])
	tokenize(t, v, "", values[1])
	tokenize(t, p.open(t, "b"), "s", email("of b@example.com"))
	var out bytes.Buffer
	if err := p.open(t, "a", ttl).Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for line := range strings.Lines(out.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	want := []map[string]any{
		{"token": string(tokens[0]), "type": "EMAIL", "value": "<ada>@example.com", "expires": "2026-11-21T13:00:00Z",
			"sessions": []any{"r", "s"}},
		{"token": string(tokens[1]), "type": "SSN", "value": "078051120", "number": true},
		{"token": string(tokens[2]), "type": "NAME", "value": "", "bytes": "/w==", "sessions": []any{"s"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
