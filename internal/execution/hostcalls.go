package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/files"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/queue"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/steps"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// host serves the host calls of one execution. It acts only for the tenant of the
// execution, regardless of the arguments.
type host struct {
	*executor
	out   *reply.Output
	tools *tools.Host  // nil if code may call none
	dry   *plan.DryRun // nil unless it is a dry run
	queue.Pausable
	table   func() hostcall.Table // made when the code makes its first call
	slots   chan struct{}         // one element per call in flight
	busy    activity
	steps   steps.Host
	unknown unknownCalls
	failed  failedCalls
}

var (
	_ sandbox.Host          = (*host)(nil)
	_ sandbox.QuickCaller   = (*host)(nil)
	_ sandbox.ReservingHost = (*host)(nil)
	_ sandbox.ClockRecorder = (*host)(nil)
)

func newHost(e *executor, out *reply.Output, limit *clock.Clock) *host {
	h := &host{executor: e, out: out, Pausable: queue.Pausable{Clock: limit, Slot: e.slot},
		slots: make(chan struct{}, hostcall.MaxConcurrent)}
	if e.run.Request.DryRun {
		h.dry = &plan.DryRun{}
	}
	if e.r.cfg.Tools != nil {
		h.tools = tools.New(toolsConfig(h))
	}
	h.steps = steps.Host{Record: e.run.record, Resumable: e.resumable(), Gate: e.gate, Clock: limit}
	h.table = sync.OnceValue(func() hostcall.Table { return newTable(h) })
	return h
}

// newTable returns the calls that the code may make. The packages of their nouns handle them.
func newTable(h *host) hostcall.Table {
	var more [][]hostcall.Method
	for _, of := range h.r.cfg.HostCalls() {
		more = append(more, of.Methods(hostcall.Scope{Home: h.home, Gate: h.gate, DryRun: h.dry != nil,
			Audit: func(kind audit.Kind, complete func(*audit.Line)) { auditOf(h, kind, complete) }}))
	}
	return hostcall.NewTable(append(more,
		files.Methods(h.home.Workspace, h.dry != nil), tokens.Methods(h.gate),
		h.steps.Methods(), h.step.Methods(), h.tools.Methods(), skillsHost(h).Methods(),
		[]hostcall.Method{
			hostcall.New("ask", hostcall.Durable|hostcall.Taped, h.ask),
			hostcall.New("plan_ends", hostcall.Quick, func(_ context.Context, a plan.End) (any, error) { return nil, h.dry.SetEnd(a) }),
			hostcall.New(methodWait, hostcall.Idle, h.wait),
			hostcall.New("progress", 0, h.progress),
		},
	)...)
}

func skillsHost(h *host) *skills.Host {
	s := &skills.Host{
		Marker: h.r.Skills(h.home, h.run.Request.Subset),
		Dry:    h.dry,
		Guard:  h.guard,
		Tools:  h.tools,
		Used:   &h.run.skills,
		Warn:   h.run.Warn,
	}
	if h.resumable() {
		s.Record = h.run.record
	}
	return s
}

// auditOf records a line about the execution, unless it is one of Sandpiper's own.
func auditOf(h *host, kind audit.Kind, complete func(*audit.Line)) {
	if h.run.internal || h.r.cfg.Audit == nil {
		return
	}
	line := auditLine(h.executor, kind)
	complete(&line)
	h.r.cfg.Audit(line)
}

func toolsConfig(h *host) tools.Config {
	owner := toolcall.Owner{
		Home:        h.home,
		Subset:      h.run.Request.Subset,
		Gate:        h.gate,
		Run:         h.run.record,
		Plan:        h.dry.Calls(),
		Sandbox:     h.sandbox,
		OnInjection: func(ref tool.Ref, kinds []string) { h.run.FlagServer(ref.Server, kinds) },
	}
	if !h.run.internal { // these share a gate
		owner.Later = h.gate.Ingester().Later
	}
	view := h.r.cfg.Tools.For(h.home.ID(), h.run.Request.Subset)
	if h.run.Request.Tools != nil {
		owner.Only = catalog.NewAllowExactly(h.run.Request.Tools)
		view.Only = owner.Only
	}
	return tools.Config{
		View:      view,
		Owner:     owner,
		Execution: h.run.id,
		Session:   h.run.Request.SessionID,
		Guard:     h.guard,
		Pausable:  h.Pausable,
		Warn:      h.run.Warn,
		Wrap:      func(c tool.Caller) tool.Caller { return codeCaller{h, c} },
		Record: func(ctx context.Context, a journal.HostCall, call func(context.Context) (any, error)) (any, error) {
			return h.callOnce(ctx, a, false, call)
		},
		Report: func(ctx context.Context, done, total float64, message string) {
			_, _ = h.progress(ctx, live.Progress{Done: done, Total: total, Message: message})
		},
	}
}

// codeCaller makes the calls of code: it asks persons for them, and counts.
type codeCaller struct {
	h    *host
	next tool.Caller
}

func (c codeCaller) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	h := c.h
	call.Ask, call.Approve, call.Decide, call.Origin = h.askForTool(ctx, call.Ref), h.approve(ctx), decide(ctx, h), originOf(h.executor)
	h.run.calls.Add(1)
	res, err := c.next.Call(ctx, call)
	if err != nil {
		return res, err
	}
	if res.Outcome == tool.Unknown {
		h.unknown.add(&tool.Failure{Ref: call.Ref, Unknown: true}, false)
	}
	if res.Planned == 0 { // a model that calls the tool itself would read the text, which repeats the structured content
		h.home.Usage.AddToolCall(h.run.Request.SessionID, string(call.Args), cmp.Or(res.Text(), string(res.Structured)))
	}
	return res, nil
}

// Output implements sandbox.Host.
func (h *host) Output(p []byte) error {
	if b := h.run.background.Load(); b != nil {
		b.output.Add(p)
	}
	return h.out.Add(p)
}

// CallNow implements sandbox.QuickCaller.
func (h *host) CallNow(ctx context.Context, method string, args []byte) (result []byte, served bool, err error) {
	m := h.table()[method]
	// a replayed call may wait for others
	if !m.Has(hostcall.Quick) || len(args) > memory.Small || h.run.record.Replays() ||
		method == steps.MethodDone && journal.StepsDue(h.run.record) {
		return nil, false, nil
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return nil, false, nil
	}
	result, err = h.serve(memory.NewContext(ctx, nil), m, args) // several may run at a time
	return result, true, err
}

// Call implements sandbox.Host.
func (h *host) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	result, release, err := h.CallReserved(ctx, method, args)
	release()
	return result, err
}

// CallReserved implements sandbox.ReservingHost.
func (h *host) CallReserved(ctx context.Context, method string, args []byte) (result []byte, release func(), err error) {
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
	m, ok := h.table()[method]
	if !ok {
		return nil, fault.New(fault.NotFound, "unknown host call %.60q", method)
	}
	if m.Has(hostcall.Unlimited) {
		return h.serve(ctx, m, args)
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return h.serve(ctx, m, args)
}

// serve serves a call that has a slot.
func (h *host) serve(ctx context.Context, m hostcall.Method, args []byte) (_ []byte, err error) {
	if !m.Has(hostcall.Idle) {
		if err := h.busy.enter(ctx); err != nil {
			return nil, err
		}
		defer h.busy.leave()
	}
	whole := ctx
	ctx, done, err := h.steps.Within(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		logInternal(ctx, h, m.Name, err)
		h.unknown.add(err, whole.Err() != nil)
		h.failed.add(err)
		done(err)
	}()
	make := func() (any, error) { return callOrReplay(ctx, h, m, args) }
	var answer any
	if tape := h.run.Request.Tape; tape != nil && m.Has(hostcall.Taped) {
		answer, err = tape.Call(ctx, h.gate, m.Name, args, make)
	} else {
		answer, err = make()
	}
	if err != nil {
		err = withCommands(h.run.Request.Commands, err)
		h.endReplay(err)
		return nil, err
	}
	if raw, ok := answer.(json.RawMessage); ok {
		if err := memory.FromContext(ctx).Answer(ctx, int64(len(raw))); err != nil {
			return nil, err
		}
	}
	if a, ok := answer.(hostcall.Encoder); ok {
		return a.Encode()
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
	text, wrong := h.gate.Tokenize(context.WithoutCancel(ctx), "", cause.Error())
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
func callOrReplay(ctx context.Context, h *host, m hostcall.Method, args []byte) (any, error) {
	if !m.Has(hostcall.Replayed) {
		return m.Handle(ctx, args)
	}
	return h.callOnce(ctx, journal.HostCall{Method: m.Name, Args: args}, m.Has(hostcall.Durable),
		func(ctx context.Context) (any, error) { return m.Handle(ctx, args) })
}

// maxMessage limits a progress message, in bytes.
const maxMessage = 1000

// progress replaces the execution's latest progress.
func (h *host) progress(ctx context.Context, p live.Progress) (_ any, err error) {
	if math.IsNaN(p.Done) || p.Done < 0 || p.Total < 0 {
		return nil, fault.New(fault.Invalid, "progress is %v of %v; both must be 0 or more", p.Done, p.Total)
	}
	if p.Message, err = h.gate.Tokens().Promote(ctx, h.gate.Truncate(p.Message, maxMessage)); err != nil {
		return nil, err
	}
	h.run.report(p)
	return nil, nil
}

// hostWords returns the words of code that makes calls of features.
func hostWords(r *Runner) (words []string) {
	for _, s := range r.cfg.HostCalls() {
		words = append(words, s.Words...)
	}
	return words
}
