package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
)

// search searches tools. While it waits for servers that were never listed, the code's clock is
// paused.
func (h *Host) search(ctx context.Context, q lookup.Query) (any, error) {
	q.FromCode = true
	if slices.ContainsFunc(h.Now().Servers, func(s catalog.Server) bool { return s.Connected && s.Listed.IsZero() }) {
		h.Pause()
		defer h.Resume(ctx) // fails only if ctx has ended, and then the call ends as well
	}
	return h.find().Answer(ctx, q)
}

func (h *Host) define(ctx context.Context, q lookup.Names) (any, error) {
	q.Schemas = true // tokens do not matter to code
	return h.find().DefineNames(ctx, h.Owner.Home.Shapes, q)
}

// find returns the Finder of the tools that the code may use.
func (h *Host) find() *lookup.Finder {
	own := h.Owner.Home
	f := lookup.WithShapes(h.Find.For(h.Viewer).WithUses(own.Learned), own.Shapes)
	if h.Only != nil {
		return f
	}
	return f.WithSkills(own.Skills)
}

// findings are the errors that preflight found.
type findings struct {
	Findings []string `json:"findings"`
}

// check checks the tools that the code uses before it runs.
func (h *Host) check(ctx context.Context, uses preflight.Uses) (any, error) {
	uses = h.Checked(uses)
	why := h.Await(ctx, uses.Servers())
	f := findings{append([]string{}, preflight.Check(h.Now(), why, h.Calls.Schema, uses)...)}
	h.refused.Store(len(f.Findings) > 0)
	return f, nil
}

// whyMissing returns why code cannot import a server, or a function of it: "" if it can, or if a module
// is handwritten.
func (h *Host) whyMissing(_ context.Context, a serverArgs) (any, error) {
	uses := h.Checked(preflight.Uses{Imports: []preflight.Import{{Server: a.Server, Function: a.Name, Line: 1}}})
	for _, f := range preflight.Find(h.Now(), nil, h.Calls.Schema, uses) {
		return f.Text, nil
	}
	return "", nil
}

// startingInterval is the interval between reports that a server is still starting.
const startingInterval = 5 * time.Second

// Await is View.Await with the clock of the code paused.
func (h *Host) Await(ctx context.Context, servers []string) map[string]error {
	Infer(ctx, h.Components, h.Owner.Home)
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
