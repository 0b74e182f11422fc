package vault_test

import (
	"fmt"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// BenchmarkTokenizeNew tokenizes 10,000 new values in one call.
func BenchmarkTokenizeNew(b *testing.B) {
	p := newTestDir(b)
	v := p.open(b, "a", func(c *vault.Config) { c.MaxRecords, c.MaxNew = 1<<40, 1<<40 })
	for i := 0; b.Loop(); i++ {
		values := make([]vault.Value, 10_000)
		for k := range values {
			values[k] = email(fmt.Sprintf("%d.%d@example.com", i, k))
		}
		tokenize(b, v, "s", values...)
	}
}

// BenchmarkTokenizeCached tokenizes 10,000 values that were disclosed to the session
// before.
func BenchmarkTokenizeCached(b *testing.B) {
	p := newTestDir(b)
	v := p.open(b, "a")
	values := many(10_000)
	tokenize(b, v, "s", values...)
	for b.Loop() {
		tokenize(b, v, "s", values...)
	}
}

// BenchmarkTokenizeOne tokenizes one new value per transaction.
func BenchmarkTokenizeOne(b *testing.B) {
	p := newTestDir(b)
	v := p.open(b, "a", func(c *vault.Config) { c.MaxRecords, c.MaxNew = 1<<40, 1<<40 })
	for i := 0; b.Loop(); i++ {
		tokenize(b, v, "s", email(fmt.Sprintf("%d@example.com", i)))
	}
}

// BenchmarkFindTokens searches text that has brackets and no tokens.
func BenchmarkFindTokens(b *testing.B) {
	text := fmt.Sprint(many(5_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(vault.FindTokens(text)) != 0 {
			b.Fatal("found tokens")
		}
	}
}
