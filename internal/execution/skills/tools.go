package skills

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// UsedTool is a tool that code uses, by the names in the code. A wrong report of a worker would
// harm only the skill of its own tenant.
type UsedTool struct {
	Server   string `json:"server"`
	Function string `json:"function"`
	ByName   bool   `json:"by_name"` // the names are the server's own
}

// Resolve returns the tools with their schemas in the catalog.
func Resolve(now *catalog.Snapshot, used []UsedTool) skill.Tools {
	var all []skill.Tool
	for _, u := range used {
		ref := tool.Ref{Server: u.Server, Tool: u.Function}
		if u.ByName {
			ref = now.Resolve(ref)
		} else if t, ok := now.Function(u.Server, u.Function); ok {
			ref = t.Ref
		}
		if t, ok := now.Find(ref); ok {
			all = append(all, skill.NewTool(t.Definition))
		} else {
			all = append(all, skill.Tool{Ref: ref})
		}
	}
	return skill.NewTools(all)
}

// Servers returns the names in the code of the servers of tools.
func Servers(used []UsedTool) (names []string) {
	for _, u := range used {
		names = append(names, u.Server)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Marker marks skills whose tools have changed, as code sees the tools.
type Marker struct {
	Store *skill.Store
	View  tools.View // without Components, it marks none
	Log   *slog.Logger
}

// Mark sets how the tools of a skill have changed. It first stores the schemas of tools whose server had
// not listed them when the skill was saved, and has listed them since.
func (m Marker) Mark(ctx context.Context, s *skill.Metadata) {
	if m.View.Components == nil {
		return
	}
	now := m.View.Now()
	if s.Complete(now) {
		if err := m.Store.SetTools(context.WithoutCancel(ctx), s.Name, s.Version, s.Tools); err != nil {
			m.Log.Warn("store the schemas of the tools of a skill", "tenant", m.View.Tenant.String(), "skill", s.Name, "error", err)
		}
	}
	s.Mark(now)
}
