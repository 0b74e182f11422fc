package vault_test

import (
	"fmt"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// BenchmarkTokenizeNew takes 10,000 values that nobody has seen, in one call.
func BenchmarkTokenizeNew(b *testing.B) {
	p := newPlace(b)
	v := p.open(b, "a", func(c *vault.Config) { c.MaxRecords, c.MaxNew = 1<<40, 1<<40 })
	for i := 0; b.Loop(); i++ {
		values := make([]vault.Value, 10_000)
		for k := range values {
			values[k] = email(fmt.Sprintf("%d.%d@example.com", i, k))
		}
		tokenize(b, v, "s", values...)
	}
}

// BenchmarkTokenizeCached takes 10,000 values that the session was given before.
func BenchmarkTokenizeCached(b *testing.B) {
	p := newPlace(b)
	v := p.open(b, "a")
	values := many(10_000)
	tokenize(b, v, "s", values...)
	for b.Loop() {
		tokenize(b, v, "s", values...)
	}
}

// BenchmarkTokenizeOne takes one new value, with a commit.
func BenchmarkTokenizeOne(b *testing.B) {
	p := newPlace(b)
	v := p.open(b, "a", func(c *vault.Config) { c.MaxRecords, c.MaxNew = 1<<40, 1<<40 })
	for i := 0; b.Loop(); i++ {
		tokenize(b, v, "s", email(fmt.Sprintf("%d@example.com", i)))
	}
}

// BenchmarkFindTokens looks through text without tokens but with brackets.
func BenchmarkFindTokens(b *testing.B) {
	text := fmt.Sprint(many(5_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(vault.FindTokens(text)) != 0 {
			b.Fatal("there are tokens")
		}
	}
}
