package redact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// BenchmarkRedact measures redacting an answer, by its content. "plain" is the answer
// of the smallest execution.
func BenchmarkRedact(b *testing.B) {
	plain := map[string]any{"success": true, "result": 2, "output": []string{}, "execution_time_ms": 1,
		"execution_id": "exec_3bjoyc7wenghegv67ceo744w5b"}
	rows := func(n int) any {
		var all []any
		for i := range n {
			all = append(all, map[string]any{"id": i, "name": fmt.Sprintf("Ada Lovelace %d", i),
				"email": fmt.Sprintf("ada%d@example.com", i), "amount": 12.5, "note": "paid late, twice"})
		}
		return map[string]any{"success": true, "result": all, "output": []string{"12 rows", "done"}}
	}
	for _, c := range []struct {
		name  string
		body  any
		known int // values in the vault
	}{
		{"plain", plain, 0}, {"plain, 10,000 known", plain, 10_000}, {"3 rows", rows(3), 100}, {"100 rows", rows(100), 1000},
		{"16 KB of text", map[string]any{"output": []string{strings.Repeat("the quick brown fox jumps over 13 lazy dogs\n", 370)}}, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, redact.Config{Mode: redact.Egress, Filter: guardrail.NewFilter(true, true)})
			var values []vault.Value
			for i := range c.known {
				values = append(values, vault.Value{Type: "EMAIL", Text: fmt.Sprintf("somebody%d@example.org", i)})
			}
			if _, err := r.ada.Vault.Tokenize(b.Context(), "", values); err != nil {
				b.Fatal(err)
			}
			e := r.gate()
			b.SetBytes(int64(len(redacted(b, e, c.body))))
			for b.Loop() {
				if _, err := e.Redact(b.Context(), redact.Message{Body: c.body}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall measures restoring the arguments and ingesting the answer of a tool
// call.
func BenchmarkCall(b *testing.B) {
	r := newRig(b, redact.Config{Mode: redact.Egress, Filter: guardrail.NewFilter(true, true)})
	e, ref := r.gate(), tool.Ref{Server: "crm", Tool: "add"}
	args := json.RawMessage(`{"name":"Ada Lovelace","email":"ada@example.com","amount":12.5}`)
	res := tool.Result{Structured: json.RawMessage(`{"id":5,"name":"Ada ` +
		`Lovelace","email":"ada@example.com","created":"2026-11-21T10:00:00Z"}`)}
	for b.Loop() {
		if _, err := e.Restorer().Args(context.Background(), ref, args); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Ingester().Result(context.Background(), res); err != nil {
			b.Fatal(err)
		}
		r.crossings = r.crossings[:0]
	}
}

// BenchmarkHostile measures redacting a megabyte of text that resembles values. The
// time per byte must not depend on the length.
func BenchmarkHostile(b *testing.B) {
	for name, unit := range map[string]string{
		"digits": "1234567890", "mail addresses": "a@", "beginnings of tokens": "[EMAIL_", "tokens": "[EMAIL_aaaaaaaaaaaaaaaa]",
		"escapes": `\u0041`,
		"base64":  "QUFBQUFBQUFBQUFB", "hexadecimal": "61406163", "letters apart": "a b ", "URL encoding": "%41", "strings": `","`,
		"open JSON": `[{"a":`, "columns": "name,a\n",
	} {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d KB", name, size>>10), func(b *testing.B) {
				e := newRig(b, redact.Config{Mode: redact.Egress}).gate()
				text := `["` + strings.Repeat(unit, size/len(unit)) + `"]`
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if _, err := e.Tokenize(b.Context(), "", text); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
