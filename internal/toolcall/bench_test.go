package toolcall_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// BenchmarkRead measures a read-only call with and without an audit log on disk. The server answers
// immediately.
func BenchmarkRead(b *testing.B) {
	for _, audited := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "audited"}[audited], func(b *testing.B) {
			dir := b.TempDir()
			homes, err := home.Open(b.Context(), home.Config{Root: filepath.Join(dir, "data")})
			if err != nil {
				b.Fatal(err)
			}
			defer homes.Close()
			home, err := homes.Acquire(b.Context(), tenant.Local)
			if err != nil {
				b.Fatal(err)
			}
			defer home.Release(context.Background())
			cat, err := catalog.Open(catalog.Config{Dir: filepath.Join(dir, "catalog"),
				Servers: []catalog.Configured{{Name: "crm", Trusted: true}}})
			if err != nil {
				b.Fatal(err)
			}
			put(b, cat, "Sends.")
			cfg := toolcall.Config{Catalog: cat, Upstream: instant{}}
			if audited {
				log, err := audit.Open(audit.Config{Dir: filepath.Join(dir, "audit"), Key: make([]byte, 32)})
				if err != nil {
					b.Fatal(err)
				}
				defer log.Close()
				cfg.Audit = log.AppendLater
			}
			stack, n := toolcall.New(cfg), 0
			var c tool.Caller
			for b.Loop() {
				if n++; n%1000 == 1 { // an execution of a thousand reads
					c = stack.For(toolcall.Owner{Home: home, Gate: open(b)})
				}
				if _, err := c.Call(b.Context(), call("crm", "read", `{}`)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// instant is a server that answers immediately.
type instant struct{}

func (instant) Call(context.Context, tool.Call) (tool.Result, error) { return text(`{}`), nil }
