package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
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
	if len(names) == 0 || e.run.Request.DryRun || e.run.Request.Replay != nil {
		return
	}
	if err := e.home.Skills.AddUses(context.WithoutCancel(ctx), names, x.err == nil && x.result.Success()); err != nil {
		e.r.cfg.Log.Warn("count the use of skills", "tenant", e.home.ID().String(), "error", err)
	}
}

// compileCode compiles the variable source as a module, with its tokens replaced by
// their values, and reports errors. It runs in a sandbox like all code, since hostile
// source can make the compiler use much time and memory.
const compileCode = `from sandpiper import literals
result = literals.checked(source, tokens)
`

// checkTimeout limits one compilation.
const checkTimeout = 10 * time.Second

// checkedCode is code that compiles.
type checkedCode struct {
	Source string            // with tokens replaced
	Tools  []skills.UsedTool // that it certainly uses
}

// checkPython rejects code that does not compile, with the line and the compiler's
// message. Tokens in string literals and comments of the returned code are replaced by
// their values, escaped as needed; other tokens remain.
func checkPython(ctx context.Context, r *Runner, home *home.Home, code string, tokens map[string]string) (checkedCode, error) {
	if err := checkCode(code); err != nil {
		return checkedCode{}, err
	}
	if err := skills.CheckGuard(ctx, r.cfg.Guard(), code); err != nil {
		return checkedCode{}, err
	}
	vars, err := json.Marshal(map[string]any{"source": code, "tokens": tokens})
	if err != nil {
		return checkedCode{}, fmt.Errorf("marshal the source: %w", err)
	}
	done, err := runInternal(ctx, r, home, compileCode, vars)
	if err != nil {
		return checkedCode{}, err
	}
	return compileResult(code, done)
}

// runInternal runs code of our own with the limits of a compilation.
func runInternal(ctx context.Context, r *Runner, home *home.Home, code string, vars json.RawMessage) (reply.Result, error) {
	l := r.Limits(home.ID())
	own := newRun(NewID(), StoredRequest{Request: Request{Code: code, Vars: vars, Timeout: min(checkTimeout, l.MaxTimeout), MemoryMB: l.MemoryMB}}, nil)
	own.internal = true
	x, err := start(ctx, r, home, own)
	if err != nil {
		return reply.Result{}, err
	}
	for {
		switch e, err := x.Next(ctx); {
		case err != nil:
			return reply.Result{}, err
		case e.Done != nil:
			return *e.Done, nil
		}
	}
}

// compileResult interprets the result of compileCode.
func compileResult(code string, r reply.Result) (checkedCode, error) {
	if !r.Success() {
		return checkedCode{}, fault.New(fault.Invalid, "code could not be compiled: %.300s", r.Error)
	}
	var found struct {
		checkedCode
		Line    int
		Message string // "" if the code compiles
		Token   bool   // the error is about a token
	}
	if err := json.Unmarshal(r.Value, &found); err != nil {
		return checkedCode{}, fmt.Errorf("decode the compiler's result: %w", err)
	}
	switch {
	case found.Message == "":
		found.Source = cmp.Or(found.Source, code)
		return found.checkedCode, checkCode(found.Source)
	case found.Token:
		return checkedCode{}, fault.New(fault.Invalid, "code line %d: %.300s", found.Line, found.Message).
			WithHint("write the complete token in a string without the prefix r")
	case found.Line > 0:
		return checkedCode{}, fault.New(fault.Invalid, "code does not compile: line %d: %.300s", found.Line, found.Message)
	default:
		return checkedCode{}, fault.New(fault.Invalid, "code does not compile: %.300s", found.Message)
	}
}
