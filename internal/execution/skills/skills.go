// Package skills serves the host calls by which code saves, finds and imports skills. A dry run saves
// them in memory only, and sees what it saved.
package skills

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Host serves the calls of the code of one execution. It is safe for concurrent use.
type Host struct {
	Marker
	Dry    *plan.DryRun     // nil unless it is a dry run
	Guard  *guardrail.Guard // nil checks nothing
	Tools  *tools.Host      // nil if code may call none
	Used   *Used
	Record *journal.Record // nil if the execution cannot be resumed
	Warn   func(string)    // adds a warning to the result
}

// Methods returns the host calls.
func (h *Host) Methods() []hostcall.Method {
	return []hostcall.Method{
		hostcall.New("save_skill", hostcall.Replayed, h.save),
		hostcall.New("load_skill", hostcall.Replayed|hostcall.Quick, h.load),
		hostcall.New("list_skills", hostcall.Replayed|hostcall.Quick,
			func(ctx context.Context, _ struct{}) (any, error) { return h.find(ctx, skill.Query{}) }),
		hostcall.New("search_skills", hostcall.Replayed|hostcall.Quick, func(ctx context.Context, a searchArgs) (any, error) {
			return h.find(ctx, skill.Query{Text: a.Query, Tags: a.Tags, Limit: 20})
		}),
		hostcall.New("use_skill", 0, h.use),
	}
}

type saveArgs struct {
	Name        string            `json:"name"`
	Code        string            `json:"code"`
	Description string            `json:"description"`
	Tags        []string          `json:"tags"`
	Tools       []pycode.UsedTool `json:"tools"`
}

type loadArgs struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

type searchArgs struct {
	Query string   `json:"query"`
	Tags  []string `json:"tags"`
}

// save saves a skill. The worker has already checked that the code compiles; a
// wrong report would harm only the worker's own tenant.
func (h *Host) save(ctx context.Context, a saveArgs) (any, error) {
	if err := pycode.CheckGuard(ctx, h.Guard, a.Code); err != nil {
		return nil, err
	}
	d := skill.Draft{Name: a.Name, Code: a.Code, Description: a.Description, Tags: a.Tags}
	if h.Tools != nil {
		h.Tools.Await(ctx, pycode.Servers(a.Tools))
		d.Tools = Resolve(h.Tools.Now(), a.Tools)
	}
	saved := message{skill.Saved(a.Name, a.Code)}
	if h.Dry != nil {
		return saved, h.Dry.SaveSkill(d)
	}
	_, err := h.Store.Save(ctx, d)
	return saved, err
}

type message struct {
	Message string `json:"message"`
}

func (h *Host) load(ctx context.Context, a loadArgs) (any, error) {
	if s, ok := h.Dry.FindSkill(a.Name); ok && a.Version == 0 {
		return s, nil
	}
	found, err := h.Store.Find(ctx, a.Name, a.Version)
	h.Mark(ctx, &found.Metadata)
	return found, err
}

// find returns the skills that match, or all skills for the zero Query.
func (h *Host) find(ctx context.Context, q skill.Query) (any, error) {
	all, err := h.Store.Search(ctx, q)
	for i := range all {
		h.Mark(ctx, &all[i])
	}
	return all, err
}

// Used are the skills that an execution has imported.
type Used struct {
	mu    sync.Mutex
	names []string
}

// maxUsed limits the skills that are counted for one execution.
const maxUsed = 100

// add reports whether the name is new.
func (u *Used) add(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.names) >= maxUsed || slices.Contains(u.names, name) {
		return false
	}
	u.names = append(u.names, name)
	return true
}

// List returns the names of the skills.
func (u *Used) List() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.names)
}

// use records that the code imports a skill, and warns if that is stale or a server of it is not there.
func (h *Host) use(ctx context.Context, a hostcall.Name) (any, error) {
	if !h.Used.add(a.Name) {
		return nil, nil
	}
	found, err := h.Store.Find(ctx, a.Name, 0)
	if err != nil {
		return nil, err
	}
	if h.Record != nil {
		journal.AddSkill(h.Record, a.Name, found.Metadata.CodeHash)
	}
	h.Mark(ctx, &found.Metadata)
	if why := found.Metadata.Unavailable; len(why) > 0 {
		h.Warn(fmt.Sprintf("skill %s uses tools that cannot be called now: %s", a.Name, strings.Join(why, "; ")))
	}
	if why := found.Metadata.Stale; len(why) > 0 {
		h.Warn(fmt.Sprintf("skill %s is stale, since tools that it uses have changed: %s; check it, and save it again", a.Name,
			strings.Join(why, "; ")))
	}
	return nil, nil
}

// Resolve returns the tools with their schemas in the catalog.
func Resolve(now *catalog.Snapshot, used []pycode.UsedTool) skill.Tools {
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

// Accept stores the present schemas of the tools of a skill, which has worked with them.
func (m Marker) Accept(ctx context.Context, s skill.Metadata) error {
	if m.View.Components == nil {
		return nil
	}
	now, used := m.View.Now(), slices.Clone(s.Tools)
	for i, t := range used {
		if found, ok := now.Find(t.Ref); ok && found.Quarantined == nil {
			used[i] = skill.NewTool(found.Definition)
		}
	}
	return m.Store.SetTools(ctx, s.Name, s.Version, used)
}
