package execution_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// BenchmarkRunner measures an execution without its sandbox.
func BenchmarkRunner(b *testing.B) {
	r, err := execution.New(execution.Config{Backend: fake.New(fake.Config{}), Queue: admit.New(admit.Config{})})
	if err != nil {
		b.Fatal(err)
	}
	home := newHome(b, "a")
	for b.Loop() {
		x, err := r.Start(b.Context(), home, execution.Request{Code: "result 2"})
		if err != nil {
			b.Fatal(err)
		}
		if e, err := x.Next(b.Context()); err != nil || e.Done == nil {
			b.Fatal(e, err)
		}
	}
}
