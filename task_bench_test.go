package sandpiper_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper"
)

// The difference between the two is the time to select tools, write the program by rules, and
// check it.
func BenchmarkTask(b *testing.B) {
	c := open(b, sandpiper.Config{Servers: map[string]*mcp.Server{"calculator": calculator()}})
	solved, err := c.Task(b.Context(), "add 1 and 2")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("task", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Task(b.Context(), "add 1 and 2"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("program", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Execute(b.Context(), solved.Code); err != nil {
				b.Fatal(err)
			}
		}
	})
}
