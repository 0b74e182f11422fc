package execution_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func TestCallsAnsweredInOrderAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		calls    int
		one      time.Duration
		inOrder  bool
		fails    bool
		want     string
		serially bool // the code makes one call at a time
	}{
		"in order": {calls: 4, one: time.Second, inOrder: true,
			want: "4 concurrent calls of crm took 4s, one after another: the server, or its limit `concurrency`, takes one call at a time"},
		"two":               {calls: 2, one: time.Second, inOrder: true, want: "2 concurrent calls of crm took 2s"},
		"more than at once": {calls: 40, one: 10 * time.Millisecond, inOrder: true, want: "40 concurrent calls of crm took 400ms"},
		"it costs nothing":  {calls: 4, one: 50 * time.Millisecond, inOrder: true},
		"at the same time":  {calls: 4, one: time.Second},
		"errors":            {calls: 4, one: time.Second, inOrder: true, fails: true},
		"not concurrent":    {calls: 4, one: time.Second, inOrder: true, serially: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			home := newHome(t, "a")
			turn := make(chan struct{}, 1)
			servers := readingTools(t, func(ctx context.Context, call tool.Call) (tool.Result, error) {
				if c.inOrder {
					turn <- struct{}{}
					defer func() { <-turn }()
				}
				time.Sleep(c.one)
				if c.fails {
					return tool.Result{}, &tool.Failure{Ref: call.Ref, Message: "failed"}
				}
				return tool.Result{}, nil
			})
			s := newSetup(t, execution.Config{Tools: servers}, fake.Config{}, admit.Config{})
			line := spawnFind + "\n"
			if c.serially {
				line = callFind + "\n"
			}
			x := s.start(t, t.Context(), home, execution.Request{Code: strings.Repeat(line, c.calls), Timeout: time.Minute})
			r := done(t, x)
			if c.want == "" && len(r.Warnings) > 0 || c.want != "" && !slices.ContainsFunc(r.Warnings,
				func(w string) bool { return strings.HasPrefix(w, c.want) }) {
				t.Errorf("%s: %q", name, r.Warnings)
			}
		})
	}
}
