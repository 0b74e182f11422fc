package execution

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// maxMessage limits a progress message, in bytes.
const maxMessage = 1000

// progress replaces the execution's latest progress.
func (h *host) progress(ctx context.Context, p Progress) (_ any, err error) {
	if math.IsNaN(p.Done) || p.Done < 0 || p.Total < 0 {
		return nil, fault.New(fault.Invalid, "progress is %v of %v; both must be 0 or more", p.Done, p.Total)
	}
	if p.Message, err = h.exit.Tokens().Promote(ctx, h.exit.Truncate(p.Message, maxMessage)); err != nil {
		return nil, err
	}
	h.run.report(p)
	return nil, nil
}

// toolProgress returns a function that forwards the progress of a tool.
func (h *host) toolProgress(ctx context.Context, ref tool.Ref) func(done, total float64, message string) {
	return func(done, total float64, message string) {
		if message == "" {
			message = ref.String()
		}
		_, _ = h.progress(ctx, Progress{Done: max(0, done), Total: max(0, total), Message: message})
	}
}

// startingInterval is the interval between reports that a server is still starting.
const startingInterval = 5 * time.Second

// reportStarting reports that servers are starting, and pauses the clock until started
// is called.
func (h *host) reportStarting(ctx context.Context, servers ...string) (started func()) {
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
			_, _ = h.progress(ctx, Progress{Done: time.Since(began).Round(time.Second).Seconds(), Message: "waiting for " + names + " to start"})
			select {
			case <-tick.C:
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	h.pause()
	return func() {
		close(done)
		reports.Wait()
		_ = h.resume(ctx) // fails only if ctx has ended, and then the call ends as well
	}
}
