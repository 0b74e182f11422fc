package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// BenchmarkIngest measures preparing an answer of a megabyte until its values are indexed.
func BenchmarkIngest(b *testing.B) {
	for _, mode := range []redact.Mode{redact.Egress, redact.Strict} {
		for name, row := range map[string]string{
			"items":  `{"id":%d,"title":"Item %[1]d","status":"open","score":%[1]d,"tags":["alpha","beta"],"note":"paid late, twice"}`,
			"people": `{"id":%d,"name":"Ada Lovelace %[1]d","email":"ada%[1]d@example.com","amount":12.5,"note":"paid late, twice"}`,
		} {
			b.Run(string(mode)+"/"+name, func(b *testing.B) {
				var rows []string
				for i, size := 0, 0; size < 1_000_000; i++ {
					rows = append(rows, fmt.Sprintf(row, i))
					size += len(rows[i])
				}
				text := "[" + strings.Join(rows, ",") + "]"
				r := newRig(b, redact.Config{Mode: mode})
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					o := r.ada
					if mode == redact.Strict {
						o.Local = redact.NewLocalTokens()
					}
					g := r.rules.For(o).Ingester()
					if _, err := g.Text(b.Context(), text); err != nil {
						b.Fatal(err)
					}
					g.Wait()
				}
			})
		}
	}
}
