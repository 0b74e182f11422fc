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

// Bounds on what code asks of the host.
const (
	maxCallBytes = 16 << 20
	maxCalls     = 64   // in flight from one execution
	maxMessage   = 1000 // bytes of a progress message
)

// hostcalls are the methods that code may call, each one line into its room.
var hostcalls = map[string]func(context.Context, *host, []byte) (any, error){
	"save_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a saveSkill) (any, error) { return h.saveSkill(ctx, a) })
	},
	"load_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a named) (any, error) { return h.loadSkill(ctx, a.Name) })
	},
	"list_skills": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(struct{}) (any, error) { return h.home.Skills.List(ctx) })
	},
	"delete_file": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a named) (any, error) { return nil, h.deleteFile(ctx, a.Name) })
	},
	"ask": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a askArgs) (any, error) { return h.ask(ctx, a) })
	},
	"plan_ends": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a planEnds) (any, error) { return nil, h.planEnds(a) })
	},
	"checkpoint": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a checkpoint) (any, error) { return nil, h.step.checkpoint(ctx, a) })
	},
	"progress": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(p Progress) (any, error) { return h.progress(ctx, p) })
	},
	"tokenize": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a ofText) (any, error) { return h.tokenize(ctx, a.Text) })
	},
	"detokenize": func(ctx context.Context, h *host, args []byte) (any, error) {
		return with(args, func(a ofText) (any, error) { return h.detokenize(ctx, a.Text) })
	},
}

// host serves one execution. It keeps to the tenant that it was made for,
// whatever the arguments say.
type host struct {
	home *home.Home
	run  *run
	step *step // nil without a session
	*output
	tools   *Tools      // nil if there are none
	caller  tool.Caller // of this tenant
	asker   *toolcall.Requester
	exit    *redact.Exit
	dry     *rehearsal // nil unless it is a dry run
	guard   *guardrail.Guard
	session string // "" without one
	traffic
	waits
	calls chan struct{} // one per call in flight
}

var (
	_ sandbox.Host          = (*host)(nil)
	_ sandbox.ClockRecorder = (*host)(nil)
)

func newHost(home *home.Home, x *run, st *step, out *output, tools *Tools, exit *redact.Exit, w waits, dry bool) *host {
	h := &host{home: home, run: x, step: st, output: out, tools: tools, exit: exit, waits: w, calls: make(chan struct{}, maxCalls)}
	if st != nil {
		h.session = st.req.SessionID
	}
	if dry {
		h.dry = &rehearsal{}
	}
	if tools != nil {
		h.asker = tools.Calls.Requester(home, x.id, h.session)
		h.asker.Dry = dry
		h.caller = tools.Calls.For(toolcall.Owner{Home: home, Exit: exit, Run: x.record, Plan: h.dry.plan(), OnInjection: h.marked})
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
		return nil, fault.New(fault.NotFound, "there is no host call %.60q", method)
	}
	select {
	case h.calls <- struct{}{}:
		defer func() { <-h.calls }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	answer, err := h.answers(ctx, method, args, call)
	if err != nil {
		h.differs(err)
		return nil, err
	}
	return json.Marshal(answer)
}

// answers makes a call, or gives the answer that it had when the code ran before.
func (h *host) answers(ctx context.Context, method string, args []byte, call func(context.Context, *host, []byte) (any, error)) (any, error) {
	if !remembered[method] {
		return call(ctx, h, args)
	}
	return h.once(ctx, journal.HostCall{Method: method, Args: args}, func() (any, error) { return call(ctx, h, args) })
}

// with decodes args strictly and calls f with them.
func with[A any](args []byte, f func(A) (any, error)) (any, error) {
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
		return nil, fault.Wrap(fault.Invalid, err, "the call's arguments are not what it takes")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Invalid, "the call's arguments are more than one JSON value")
	}
	return f(a)
}

type named struct {
	Name string `json:"name"`
}

type saveSkill struct {
	Name        string   `json:"name"`
	Code        string   `json:"code"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// saveSkill keeps a skill. Whether the code compiles was found out by the worker,
// which is where a wrong answer does harm only to its own tenant.
func (h *host) saveSkill(ctx context.Context, a saveSkill) (any, error) {
	if err := unguarded(h.guard, a.Code); err != nil {
		return nil, err
	}
	if h.dry != nil {
		return saved{fmt.Sprintf("Skill '%s' saved", a.Name)}, h.dry.save(a)
	}
	m, err := h.home.Skills.Save(ctx, a.Name, a.Code, a.Description, a.Tags)
	if err != nil {
		return nil, err
	}
	return saved{fmt.Sprintf("Skill '%s' saved", m.Name)}, nil
}

// loadSkill finds a skill, as the dry run saved it if it did.
func (h *host) loadSkill(ctx context.Context, name string) (any, error) {
	if s, ok := h.dry.find(name); ok {
		return s, nil
	}
	return h.home.Skills.Find(ctx, name)
}

type saved struct {
	Message string `json:"message"`
}

// progress replaces what the execution last said of itself.
func (h *host) progress(ctx context.Context, p Progress) (_ any, err error) {
	if math.IsNaN(p.Done) || p.Done < 0 || p.Total < 0 {
		return nil, fault.New(fault.Invalid, "progress is %v of %v; both must be 0 or more", p.Done, p.Total)
	}
	if p.Message, err = h.exit.PromoteTokens(ctx, h.exit.Truncate(p.Message, maxMessage)); err != nil {
		return nil, err
	}
	h.run.report(p)
	return nil, nil
}
