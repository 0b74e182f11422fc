package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// Limits on host calls.
const (
	maxCallBytes = 16 << 20
	maxCalls     = 64   // concurrent calls of one execution
	maxMessage   = 1000 // bytes of a progress message
)

// hostcalls maps the methods that code may call to their implementations.
var hostcalls = map[string]func(context.Context, *host, []byte) (any, error){
	"save_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a saveSkillArgs) (any, error) { return h.saveSkill(ctx, a) })
	},
	"load_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a nameArgs) (any, error) { return h.loadSkill(ctx, a.Name) })
	},
	"list_skills": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(struct{}) (any, error) { return h.home.Skills.List(ctx) })
	},
	"delete_file": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a nameArgs) (any, error) { return nil, h.deleteFile(ctx, a.Name) })
	},
	"ask": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a askArgs) (any, error) { return h.ask(ctx, a) })
	},
	"plan_ends": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a planEndArgs) (any, error) { return nil, h.endPlan(a) })
	},
	"checkpoint": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a checkpoint) (any, error) { return nil, h.step.checkpoint(ctx, a) })
	},
	"progress": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(p Progress) (any, error) { return h.progress(ctx, p) })
	},
	"tokenize": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a textArgs) (any, error) { return h.tokenize(ctx, a.Text) })
	},
	"detokenize": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a textArgs) (any, error) { return h.detokenize(ctx, a.Text) })
	},
}

// host serves the host calls of one execution. It acts only for the tenant that it was
// made for, regardless of the arguments.
type host struct {
	home *home.Home
	run  *run
	step *step // nil without a session
	*output
	tools   *Tools      // nil if code may call none
	caller  tool.Caller // of this tenant
	asker   *toolcall.Requester
	exit    *redact.Exit
	dry     *dryRun // nil unless it is a dry run
	guard   *guardrail.Guard
	session string // "" without one
	toolStats
	pausable
	slots chan struct{} // one element per call in flight
}

var (
	_ sandbox.Host          = (*host)(nil)
	_ sandbox.ClockRecorder = (*host)(nil)
)

func newHost(home *home.Home, x *run, st *step, out *output, tools *Tools, exit *redact.Exit, w pausable, dry bool) *host {
	h := &host{home: home, run: x, step: st, output: out, tools: tools, exit: exit, pausable: w, slots: make(chan struct{}, maxCalls)}
	if st != nil {
		h.session = st.req.SessionID
	}
	if dry {
		h.dry = &dryRun{}
	}
	if tools != nil {
		h.asker = tools.Calls.Requester(home, x.id, h.session)
		h.asker.Dry = dry
		h.caller = tools.Calls.For(toolcall.Owner{Home: home, Exit: exit, Run: x.record, Plan: h.dry.plan(), OnInjection: h.flagInjection})
	}
	return h
}

// Output implements sandbox.Host.
func (h *host) Output(p []byte) error { return h.add(p) }

// Call implements sandbox.Host.
func (h *host) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	call, ok := hostcalls[method]
	if !ok && h.tools != nil {
		call, ok = toolcalls[method]
	}
	if !ok {
		return nil, fault.New(fault.NotFound, "unknown host call %.60q", method)
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	answer, err := h.callOrReplay(ctx, method, args, call)
	if err != nil {
		h.cancelOnDivergence(err)
		return nil, err
	}
	return json.Marshal(answer)
}

// callOrReplay makes a call, or returns the answer that is on record for it.
func (h *host) callOrReplay(ctx context.Context, method string, args []byte, call func(context.Context, *host, []byte) (any, error)) (any, error) {
	if !replayedMethods[method] {
		return call(ctx, h, args)
	}
	return h.callOnce(ctx, journal.HostCall{Method: method, Args: args}, func() (any, error) { return call(ctx, h, args) })
}

// withArgs decodes args strictly and calls f with them.
func withArgs[A any](args []byte, f func(A) (any, error)) (any, error) {
	var a A
	if len(args) > maxCallBytes {
		return nil, fault.New(fault.Invalid, "the call's arguments have %d bytes; at most %d are allowed", len(args), maxCallBytes)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return f(a)
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the call's arguments do not match its parameters")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "the call's arguments are more than one JSON value")
	}
	return f(a)
}

type nameArgs struct {
	Name string `json:"name"`
}

type saveSkillArgs struct {
	Name        string   `json:"name"`
	Code        string   `json:"code"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// saveSkill saves a skill. The worker has already checked that the code compiles; a
// wrong report would harm only the worker's own tenant.
func (h *host) saveSkill(ctx context.Context, a saveSkillArgs) (any, error) {
	if err := checkGuard(h.guard, a.Code); err != nil {
		return nil, err
	}
	if h.dry != nil {
		return savedMessage{fmt.Sprintf("Skill '%s' saved", a.Name)}, h.dry.saveSkill(a)
	}
	m, err := h.home.Skills.Save(ctx, a.Name, a.Code, a.Description, a.Tags)
	if err != nil {
		return nil, err
	}
	return savedMessage{fmt.Sprintf("Skill '%s' saved", m.Name)}, nil
}

// loadSkill finds a skill; a dry run sees the skills that it saved itself.
func (h *host) loadSkill(ctx context.Context, name string) (any, error) {
	if s, ok := h.dry.findSkill(name); ok {
		return s, nil
	}
	return h.home.Skills.Find(ctx, name)
}

type savedMessage struct {
	Message string `json:"message"`
}

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
