package sandpiper_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper"
)

// BenchmarkImport measures executions that import the function of a tool and call it, beside others, with servers
// of 40 and of 4,000 tools. One caller pauses between executions, as a person's client does, and so does a session;
// 16 callers do not.
func BenchmarkImport(b *testing.B) {
	for _, tools := range []int{40, 4000} {
		b.Run(fmt.Sprintf("tools=%d", tools), func(b *testing.B) {
			c := open(b, sandpiper.Config{Servers: map[string]*mcp.Server{"many": manyTools(tools)}})
			for _, p := range []struct{ name, code string }{
				{"none", "1+1"},
				{"call_tool", "call_tool('many', 'tool_7', a=1, b=2)"},
				{"import", "from servers.many import tool_7"},
				{"import_and_call", "from servers.many import tool_7\ntool_7(1, 2)"},
			} {
				b.Run(p.name+"/one", func(b *testing.B) { spaced(b, c, sandpiper.Request{Code: p.code}) })
				b.Run(p.name+"/session", func(b *testing.B) { spaced(b, c, sandpiper.Request{Code: p.code, Session: "bench"}) })
				b.Run(p.name+"/callers=16", func(b *testing.B) {
					b.SetParallelism(16 / runtime.GOMAXPROCS(0))
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if _, err := c.Run(b.Context(), sandpiper.Request{Code: p.code}); err != nil {
								b.Error(err)
							}
						}
					})
				})
			}
		})
	}
}

// spaced executes r again and again with pauses, and reports the median.
func spaced(b *testing.B, c *sandpiper.Client, r sandpiper.Request) {
	var times []time.Duration
	for b.Loop() {
		b.StopTimer()
		time.Sleep(15 * time.Millisecond)
		b.StartTimer()
		began := time.Now()
		if _, err := c.Run(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
}

// manyTools returns a server with n tools that add two numbers.
func manyTools(n int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "many", Version: "1"}, nil)
	for i := range n {
		mcp.AddTool(s, &mcp.Tool{Name: fmt.Sprintf("tool_%d", i), Description: "Add two numbers."},
			func(_ context.Context, _ *mcp.CallToolRequest, p pair) (*mcp.CallToolResult, sum, error) {
				return nil, sum{p.A + p.B}, nil
			})
	}
	return s
}
