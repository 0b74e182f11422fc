package execution

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

type saveSkillArgs struct {
	Name        string     `json:"name"`
	Code        string     `json:"code"`
	Description string     `json:"description"`
	Tags        []string   `json:"tags"`
	Tools       []usedTool `json:"tools"`
}

type loadSkillArgs struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

type searchSkillsArgs struct {
	Query string   `json:"query"`
	Tags  []string `json:"tags"`
}

// usedTool is a tool that code uses, by the names in the code. A wrong report of a worker would
// harm only the skill of its own tenant.
type usedTool struct {
	Server   string `json:"server"`
	Function string `json:"function"`
	ByName   bool   `json:"by_name"` // the names are the server's own
}

// resolve returns the tools with their schemas in the catalog.
func resolve(now *catalog.Snapshot, used []usedTool) skill.Tools {
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

// servers returns the names in the code of the servers of tools.
func servers(used []usedTool) (names []string) {
	for _, u := range used {
		names = append(names, u.Server)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// saveSkill saves a skill. The worker has already checked that the code compiles; a
// wrong report would harm only the worker's own tenant.
func (h *host) saveSkill(ctx context.Context, a saveSkillArgs) (any, error) {
	if err := checkGuard(ctx, h.guard, a.Code); err != nil {
		return nil, err
	}
	d := skill.Draft{Name: a.Name, Code: a.Code, Description: a.Description, Tags: a.Tags}
	if h.tools != nil {
		h.tools.Await(ctx, servers(a.Tools))
		d.Tools = resolve(h.tools.Now(), a.Tools)
	}
	saved := savedMessage{skill.Saved(a.Name, a.Code)}
	if h.dry != nil {
		return saved, h.dry.SaveSkill(d)
	}
	_, err := h.home.Skills.Save(ctx, d)
	return saved, err
}

type savedMessage struct {
	Message string `json:"message"`
}

// loadSkill finds a skill; a dry run sees the skills that it saved itself.
func (h *host) loadSkill(ctx context.Context, a loadSkillArgs) (any, error) {
	if s, ok := h.dry.FindSkill(a.Name); ok && a.Version == 0 {
		return s, nil
	}
	found, err := h.home.Skills.Find(ctx, a.Name, a.Version)
	h.r.MarkStale(ctx, h.home, h.req.Subset, &found.Metadata)
	return found, err
}

// searchSkills returns the skills that match, or all skills for the zero Query.
func (h *host) searchSkills(ctx context.Context, q skill.Query) (any, error) {
	all, err := h.home.Skills.Search(ctx, q)
	for i := range all {
		h.r.MarkStale(ctx, h.home, h.req.Subset, &all[i])
	}
	return all, err
}

// usedSkills are the skills that an execution has imported.
type usedSkills struct {
	mu    sync.Mutex
	names []string
}

// maxUsedSkills limits the skills that are counted for one execution.
const maxUsedSkills = 100

// add reports whether the name is new.
func (u *usedSkills) add(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.names) >= maxUsedSkills || slices.Contains(u.names, name) {
		return false
	}
	u.names = append(u.names, name)
	return true
}

func (u *usedSkills) list() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.names)
}

// useSkill records that the code imports a skill, and warns if that is stale or a server of it is not there.
func (h *host) useSkill(ctx context.Context, name string) error {
	if !h.run.skills.add(name) {
		return nil
	}
	found, err := h.home.Skills.Find(ctx, name, 0)
	if err != nil {
		return err
	}
	if h.resumable() {
		h.run.record.AddSkill(name, found.Metadata.CodeHash)
	}
	h.r.MarkStale(ctx, h.home, h.req.Subset, &found.Metadata)
	if why := found.Metadata.Unavailable; len(why) > 0 {
		h.run.warn(fmt.Sprintf("skill %s uses tools that cannot be called now: %s", name, strings.Join(why, "; ")))
	}
	if why := found.Metadata.Stale; len(why) > 0 {
		h.run.warn(fmt.Sprintf("skill %s is stale, since tools that it uses have changed: %s; check it, and save it again", name, strings.Join(why, "; ")))
	}
	return nil
}

// countSkills adds the execution to the counters of the skills that it used.
func (e *executor) countSkills(ctx context.Context) {
	x := e.run
	names := x.skills.list()
	if len(names) == 0 || e.req.DryRun || e.req.Replay != nil {
		return
	}
	if err := e.home.Skills.AddUses(context.WithoutCancel(ctx), names, x.err == nil && x.result.Success()); err != nil {
		e.r.cfg.Log.Warn("count the use of skills", "tenant", e.home.ID().String(), "error", err)
	}
}

// MarkStale sets how the tools of a skill have changed, as code in a subset of the servers sees
// them. It first stores the schemas of tools whose server had not listed them when the skill was
// saved, and has listed them since.
func (r *Runner) MarkStale(ctx context.Context, h *home.Home, subset string, m *skill.Metadata) {
	t := r.cfg.Tools
	if t == nil {
		return
	}
	now := t.Catalog.For(catalog.Viewer{Tenant: h.ID(), Subset: subset})
	if m.Complete(now) {
		if err := h.Skills.SetTools(context.WithoutCancel(ctx), m.Name, m.Version, m.Tools); err != nil {
			r.cfg.Log.Warn("store the schemas of the tools of a skill", "tenant", h.ID().String(), "skill", m.Name, "error", err)
		}
	}
	m.Mark(now)
}

// CheckSkill rejects a skill whose code does not compile, or that cannot be saved for another
// reason. It returns the skill with its tools, and with tokens in string literals and comments
// of the code replaced by their values, escaped as needed. It waits until the servers of these
// tools have listed them or have failed to, and ends with ctx.
func (r *Runner) CheckSkill(ctx context.Context, h *home.Home, subset string, d skill.Draft, tokens map[string]string) (skill.Draft, error) {
	if err := d.Check(); err != nil {
		return d, err
	}
	checked, err := r.checkPython(ctx, h, d.Code, tokens)
	if err != nil {
		return d, err
	}
	d.Code = checked.Source
	if t := r.cfg.Tools; t != nil {
		v := tools.View{Components: t, Viewer: catalog.Viewer{Tenant: h.ID(), Subset: subset}}
		v.Await(ctx, servers(checked.Tools))
		d.Tools = resolve(v.Now(), checked.Tools)
	}
	return d, d.Check()
}
