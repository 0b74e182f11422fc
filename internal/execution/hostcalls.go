package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// Limits on host calls.
const (
	maxCallBytes = 16 << 20
	maxCalls     = 64 // concurrent calls of one execution
)

// hostcalls maps the methods that code may call to their implementations.
var hostcalls = map[string]hostcall{
	"save_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a saveSkillArgs) (any, error) { return h.saveSkill(ctx, a) })
	},
	"load_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a loadSkillArgs) (any, error) { return h.loadSkill(ctx, a) })
	},
	"list_skills": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(struct{}) (any, error) { return h.searchSkills(ctx, skill.Query{}) })
	},
	"search_skills": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a searchSkillsArgs) (any, error) {
			return h.searchSkills(ctx, skill.Query{Text: a.Query, Tags: a.Tags, Limit: 20})
		})
	},
	"save_state": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a saveStateArgs) (any, error) { return h.saveState(ctx, a) })
	},
	"get_state": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a nameArgs) (any, error) { return h.getState(ctx, a.Name) })
	},
	"use_skill": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a nameArgs) (any, error) { return nil, h.useSkill(ctx, a.Name) })
	},
	"delete_file": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a nameArgs) (any, error) { return nil, h.deleteFile(ctx, a.Name) })
	},
	"truncate_file": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a truncateArgs) (any, error) {
			if h.dry != nil {
				return nil, fault.New(fault.Denied, "a dry run cannot truncate files")
			}
			return nil, workspace.Truncate(ctx, h.home.Workspace, a.Name, a.Size)
		})
	},
	"ask": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a askArgs) (any, error) { return h.ask(ctx, a) })
	},
	"form": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a formArgs) (any, error) { return h.form(ctx, a) })
	},
	methodAskLLM: func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a askLLMArgs) (any, error) { return h.askLLM(ctx, a) })
	},
	"plan_ends": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a plan.End) (any, error) { return nil, h.dry.SetEnd(a) })
	},
	"checkpoint": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a checkpoint) (any, error) { return nil, h.step.checkpoint(ctx, a) })
	},
	"step": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(k journal.StepKey) (any, error) { return h.beginStep(ctx, k) })
	},
	methodStepDone: func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a stepDoneArgs) (any, error) { return nil, h.endStep(ctx, a) })
	},
	"limit": func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a limitArgs) (any, error) { return h.beginLimit(ctx, a) })
	},
	methodLimitWait: func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a limitNumber) (any, error) { return h.awaitLimit(ctx, a) })
	},
	"limit_end": func(_ context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a limitNumber) (any, error) { return limitState{Expired: h.limits.end(a.Number, false)}, nil })
	},
	methodWait: func(ctx context.Context, h *host, args []byte) (any, error) {
		return withArgs(args, func(a waitArgs) (any, error) { return h.wait(ctx, a) })
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

// host serves the host calls of one execution. It acts only for the tenant of the
// execution, regardless of the arguments.
type host struct {
	*executor
	out    *reply.Output
	tools  *Tools         // nil if code may call none
	only   *catalog.Allow // tools of the request; nil means all
	caller tool.Caller    // of this tenant
	asker  *toolcall.Requester
	dry    *plan.DryRun // nil unless it is a dry run
	toolStats
	pausable
	slots   chan struct{} // one element per call in flight
	asking  chan struct{} // one element while ask_llm waits for the model
	asked   ModelUsage    // guarded by asking
	forming chan struct{} // one element while a document is processed
	busy    activity
	limits  timeLimits
	unknown unknownCalls
	failed  failedCalls
	serial  serialCalls
}

var (
	_ sandbox.Host          = (*host)(nil)
	_ sandbox.QuickCaller   = (*host)(nil)
	_ sandbox.HoldingHost   = (*host)(nil)
	_ sandbox.ClockRecorder = (*host)(nil)
)

func newHost(e *executor, out *reply.Output, limit *clock.Clock) *host {
	h := &host{executor: e, out: out, tools: e.r.cfg.Tools, pausable: pausable{limit, e.slot}, slots: make(chan struct{}, maxCalls), asking: make(chan struct{}, 1), forming: make(chan struct{}, 1)}
	if e.req.DryRun {
		h.dry = &plan.DryRun{}
	}
	if e.req.Tools != nil {
		h.only = catalog.NewAllowExactly(e.req.Tools)
	}
	if h.tools != nil {
		owner := toolcall.Owner{Home: e.home, Subset: e.req.Subset, Only: h.only, Exit: e.exit, Run: e.run.record, Plan: h.dry.Calls(), Sandbox: e.sandbox, OnInjection: h.flagInjection}
		h.asker = h.tools.Calls.Requester(owner, e.run.id, e.req.SessionID)
		h.asker.Dry = e.req.DryRun
		h.caller = h.tools.Calls.For(owner)
	}
	return h
}

// flagInjection reports that a server returned text that looks like prompt injection.
func (h *host) flagInjection(ref tool.Ref, kinds []string) { h.run.flagServer(ref.Server, kinds) }

// Output implements sandbox.Host.
func (h *host) Output(p []byte) error {
	h.run.background.Load().add(p)
	return h.out.Add(p)
}

// quickMethods only read the tenant's database or change values in memory.
var quickMethods = map[string]bool{"load_skill": true, "list_skills": true, "search_skills": true, "get_state": true, "plan_ends": true, "step": true, methodStepDone: true}

// CallNow implements sandbox.QuickCaller.
func (h *host) CallNow(ctx context.Context, method string, args []byte) (result []byte, served bool, err error) {
	if !quickMethods[method] || len(args) > memory.Small || h.run.record.Replays() || method == methodStepDone && h.run.record.StepsDue() { // a replayed call may wait for others
		return nil, false, nil
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return nil, false, nil
	}
	result, err = h.serve(memory.NewContext(ctx, nil), method, args, hostcalls[method]) // several may run at a time
	return result, true, err
}

// Call implements sandbox.Host.
func (h *host) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	result, release, err := h.CallHeld(ctx, method, args)
	release()
	return result, err
}

// CallHeld implements sandbox.HoldingHost.
func (h *host) CallHeld(ctx context.Context, method string, args []byte) (result []byte, release func(), err error) {
	share := h.r.cfg.Memory.Open(h.home.ID().String())
	defer func() {
		if recover := recover(); recover != nil {
			share.Release()
			panic(recover)
		}
	}()
	if len(args) > memory.Small {
		err = share.Grow(ctx, argCopies*int64(len(args)))
	}
	if err == nil {
		result, err = callInSlot(ctx, h, share, method, args)
	}
	return result, share.Release, err
}

// argCopies is how often the arguments of a call are in memory: in its frame, decoded, and as they
// are restored and sent.
const argCopies = 3

func callInSlot(ctx context.Context, h *host, share *memory.Share, method string, args []byte) ([]byte, error) {
	ctx = memory.NewContext(ctx, share)
	call, ok := hostcalls[method]
	if !ok && h.tools != nil {
		call, ok = toolcalls[method]
	}
	if !ok {
		return nil, fault.New(fault.NotFound, "unknown host call %.60q", method)
	}
	if method == methodLimitWait { // needs no slot: maxTimeLimits bounds them
		return h.serve(ctx, method, args, call)
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return h.serve(ctx, method, args, call)
}

// hostcall implements one method.
type hostcall = func(ctx context.Context, h *host, args []byte) (any, error)

// serve serves a call that has a slot.
func (h *host) serve(ctx context.Context, method string, args []byte, call hostcall) (_ []byte, err error) {
	if method != methodWait && method != methodLimitWait {
		defer h.busy.begin()()
	}
	whole := ctx
	ctx, done, err := h.limits.within(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		logInternal(ctx, h, method, err)
		h.unknown.add(err, whole.Err() != nil)
		h.failed.add(err)
		done(err)
	}()
	make := func() (any, error) { return callOrReplay(ctx, h, method, args, call) }
	var answer any
	if tape := h.req.Tape; tape != nil && tapedMethods[method] {
		answer, err = tape.call(ctx, h.exit, method, args, make)
	} else {
		answer, err = make()
	}
	if err != nil {
		err = withCommands(h.req.Commands, err)
		h.endReplay(err)
		return nil, err
	}
	if raw, ok := answer.(json.RawMessage); ok {
		if err := memory.FromContext(ctx).Answer(ctx, int64(len(raw))); err != nil {
			return nil, err
		}
	}
	if a, ok := answer.(toolAnswer); ok {
		return a.encode()
	}
	return json.Marshal(answer)
}

// logInternal logs an error whose message refers to the log. The cause is redacted: it may contain
// values of the code.
func logInternal(ctx context.Context, h *host, method string, err error) {
	cause := err
	if f, ok := errors.AsType[*tool.Failure](err); ok {
		cause = f.Cause
	}
	if cause == nil || fault.KindOf(cause) != fault.Internal || ctx.Err() != nil {
		return
	}
	text, wrong := h.exit.Tokenize(context.WithoutCancel(ctx), "", cause.Error())
	if wrong != nil {
		text = "[redacted]"
	}
	h.r.cfg.Log.Error("a call of code failed", "execution", h.run.id, "method", method, "error", text)
}

// withCommands completes the commands in the message of a failed call, which the code may catch and print.
func withCommands(c fault.Commands, err error) error {
	f, ok := err.(*tool.Failure)
	if !ok {
		return err
	}
	completed := *f
	completed.Message = c.Complete(f.Message)
	return &completed
}

// callOrReplay makes a call, or returns the answer that is on record for it.
func callOrReplay(ctx context.Context, h *host, method string, args []byte, call hostcall) (any, error) {
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

// deleteFile deletes a workspace file for code whose workspace is full and therefore
// read-only.
type truncateArgs struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

func (h *host) deleteFile(ctx context.Context, name string) error {
	if h.dry != nil {
		return fault.New(fault.Denied, "a dry run cannot delete files")
	}
	return h.home.Workspace.Delete(ctx, name)
}

type textArgs struct {
	Text string `json:"text"`
}

// tokenized is a text with its values replaced by tokens, and the value of each token.
type tokenized struct {
	Text   string            `json:"text"`
	Tokens map[string]string `json:"tokens"`
}

func (h *host) tokenize(ctx context.Context, text string) (any, error) {
	text, tokens, err := h.exit.Tokens().Sanitize(ctx, text)
	return tokenized{text, tokens}, err
}

func (h *host) detokenize(ctx context.Context, text string) (any, error) {
	text, err := h.exit.Tokens().Detokenize(ctx, text)
	return textArgs{text}, err
}
