package tools

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// startingInterval is the interval between reports that a server is still starting.
const startingInterval = 5 * time.Second

// Await is View.Await with the clock of the code paused.
func (h *Host) Await(ctx context.Context, servers []string) map[string]error {
	Infer(ctx, h.View.Components, h.Owner.Home)
	now := h.Now()
	var unlisted []string
	for _, name := range servers {
		if s, ok := now.Server(name); ok && s.Connected && s.Listed.IsZero() {
			unlisted = append(unlisted, s.Name)
		}
	}
	if len(unlisted) > 0 {
		defer h.reportStarting(ctx, unlisted...)()
	}
	return h.View.Await(ctx, servers)
}

func (h *Host) awaitTools(ctx context.Context, a serverArgs) (any, error) {
	for _, err := range h.Await(ctx, []string{a.Server}) {
		return nil, failure(ctx, tool.Ref{Server: a.Server}, err)
	}
	return nil, nil
}

// reportStarting reports that servers are starting, and pauses the clock until started
// is called.
func (h *Host) reportStarting(ctx context.Context, servers ...string) (started func()) {
	const most = 5
	names := strings.Join(servers[:min(most, len(servers))], ", ")
	if more := len(servers) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	began, done := time.Now(), make(chan struct{})
	var reports sync.WaitGroup
	reports.Go(func() {
		tick := time.NewTicker(startingInterval)
		defer tick.Stop()
		for {
			h.Report(ctx, time.Since(began).Round(time.Second).Seconds(), 0, "waiting for "+names+" to start")
			select {
			case <-tick.C:
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	h.Pause()
	return func() {
		close(done)
		reports.Wait()
		_ = h.Resume(ctx) // fails only if ctx has ended, and then the call ends as well
	}
}
