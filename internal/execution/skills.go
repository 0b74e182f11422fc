package execution

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// viewOf returns the tools that code of a tenant in a subset of the servers sees.
func viewOf(r *Runner, h *home.Home, subset string) tools.View {
	return tools.View{Components: r.cfg.Tools, Viewer: catalog.Viewer{Tenant: h.ID(), Subset: subset}}
}

// MarkStale sets how the tools of a skill have changed, as code in a subset of the servers sees them.
func MarkStale(ctx context.Context, r *Runner, h *home.Home, subset string, m *skill.Metadata) {
	skills.Marker{Store: h.Skills, View: viewOf(r, h, subset), Log: r.cfg.Log}.Mark(ctx, m)
}

// CheckSkill rejects a skill whose code does not compile, or that cannot be saved for another
// reason. It returns the skill with its tools, and with tokens in string literals and comments
// of the code replaced by their values, escaped as needed. It waits until the servers of these
// tools have listed them or have failed to, and ends with ctx.
func (r *Runner) CheckSkill(ctx context.Context, h *home.Home, subset string, d skill.Draft, tokens map[string]string) (skill.Draft, error) {
	if err := d.Check(); err != nil {
		return d, err
	}
	checked, err := checkPython(ctx, r, h, d.Code, tokens)
	if err != nil {
		return d, err
	}
	d.Code = checked.Source
	if r.cfg.Tools != nil {
		v := viewOf(r, h, subset)
		v.Await(ctx, skills.Servers(checked.Tools))
		d.Tools = skills.Resolve(v.Now(), checked.Tools)
	}
	return d, d.Check()
}

// countSkills adds the execution to the counters of the skills that it used.
func countSkills(ctx context.Context, e *executor) {
	x := e.run
	names := x.skills.List()
	if len(names) == 0 || e.req.DryRun || e.req.Replay != nil {
		return
	}
	if err := e.home.Skills.AddUses(context.WithoutCancel(ctx), names, x.err == nil && x.result.Success()); err != nil {
		e.r.cfg.Log.Warn("count the use of skills", "tenant", e.home.ID().String(), "error", err)
	}
}
