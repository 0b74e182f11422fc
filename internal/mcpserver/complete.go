package mcpserver

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// maxCompletions is the protocol's limit of the values in one answer.
const maxCompletions = 100

// Sources of values. Without servers there is no finder, and no tool that uses it is listed.
var (
	serverNames   builtin.Source = ofFinder((*lookup.Finder).ServerNames)
	toolNames     builtin.Source = ofFinder((*lookup.Finder).ToolNames)
	categoryNames builtin.Source = ofFinder((*lookup.Finder).CategoryNames)
)

// resumableIDs returns the source of the executions that can be resumed.
func resumableIDs(runner *execution.Runner) builtin.Source {
	return func(ctx context.Context, home *home.Home, _ *lookup.Finder) (ids []string, err error) {
		all, err := unfinished.List(ctx, runner, home, "")
		for _, x := range all {
			ids = append(ids, x.ID)
		}
		return ids, err
	}
}

func ofFinder(names func(*lookup.Finder) []string) builtin.Source {
	return func(_ context.Context, _ *home.Home, find *lookup.Finder) ([]string, error) {
		return names(find), nil
	}
}

// completions completes the arguments of tools and templates.
type completions struct{ *Server }

// completer completes the arguments of the listed tools, of servers' tools named
// SERVER.TOOL, and of resource templates.
func (s completions) completer() *wire.Completer {
	return &wire.Completer{Scope: string(access.Execute), Values: func(ctx context.Context, c wire.Completion) (redact.Redacted, error) {
		return resourceReader(s).visit(ctx, c.Caller, func(home *home.Home, out *redact.Gate) (any, error) {
			typed, err := out.Restorer().Name(ctx, redact.ToFile, c.Value)
			if err != nil {
				return nil, err
			}
			all, err := s.valuesFor(ctx, home, c)
			return match(all, typed), err
		})
	}}
}

// valuesFor returns all values of an argument; none if it may be anything.
func (s completions) valuesFor(ctx context.Context, home *home.Home, c wire.Completion) ([]string, error) {
	if c.Template != "" {
		return s.valuesOfTemplate(ctx, home, c.Template)
	}
	var finder *lookup.Finder
	if s.cfg.Find != nil {
		finder = s.cfg.Find.For(catalog.Viewer{Tenant: home.ID(), Subset: c.Subset})
	}
	if params := s.paramsOf(home.ID(), c.Tool); params != nil {
		p := builtin.FindParam(params, c.Argument)
		switch {
		case p == nil:
			return nil, builtin.UnknownParam(c.Tool, params, c.Argument)
		case p.Source != nil:
			return p.Source(ctx, home, finder)
		}
		return p.Values, nil
	}
	if finder != nil {
		if values, known := finder.Enum(c.Tool, c.Argument); known {
			return values, nil
		}
	}
	return nil, fault.New(fault.Invalid, "there is no tool %s whose arguments can be completed", fault.Quoted(c.Tool)).
		WithHint("use the name of a listed tool, or SERVER.TOOL")
}

// valuesOfTemplate returns the values of the variable of a resource template.
func (s completions) valuesOfTemplate(ctx context.Context, home *home.Home, template string) ([]string, error) {
	if template == fileTemplate {
		return builtin.FileNames(ctx, home, nil)
	}
	var known []string
	for _, r := range s.cfg.Resources {
		if r.Template.URI == template {
			return r.Names(ctx, home, nil)
		}
		known = append(known, r.Template.URI)
	}
	known = append(known, fileTemplate)
	return nil, fault.New(fault.Invalid, "there is no resource template %s: use %s", fault.Quoted(template), strings.Join(known, " or "))
}

// paramsOf returns the parameters of a tool that is listed for a tenant; nil if it is not listed.
func (s completions) paramsOf(id tenant.ID, name string) []builtin.Param {
	a := offers(s).own(id)
	for _, t := range offers(s).tools(a) {
		if t.Name == name && a.profile.Shows(t.Profile) {
			return append([]builtin.Param{}, t.Params...) // not nil
		}
	}
	return nil
}

// match returns the values that contain what was typed, in any case: those that start with
// it first.
func match(all []string, typed string) wire.Completed {
	typed = strings.ToLower(typed)
	var first, rest []string
	for _, v := range all {
		switch at := strings.Index(strings.ToLower(v), typed); {
		case at == 0:
			first = append(first, v)
		case at > 0:
			rest = append(rest, v)
		}
	}
	found := append(append([]string{}, first...), rest...) // not null
	return wire.Completed{Values: found[:min(len(found), maxCompletions)], Total: len(found), More: len(found) > maxCompletions}
}
