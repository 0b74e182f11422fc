package execution

import (
	"context"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/guard"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/queue"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// executor runs one execution from the queue to its end. Only the execution's goroutine
// and its host calls use it.
type executor struct {
	r    *Runner
	home *home.Home
	run  *run
	step *sessions.Step // nil without a session, or before its turn has come
	slot *queue.Slot
	gate *redact.Gate // nil before the sandbox is open
	// sandbox is the kind of the open sandbox; zero before.
	sandbox policy.Sandbox

	// What the tenant may do; the execution keeps it when another configuration is loaded.
	settings Settings
	privacy  *redact.Rules
	guard    *guardrail.Guard // nil checks nothing
}

// newExecutor returns the executor of a run, with the settings that are in force now.
func newExecutor(r *Runner, h *home.Home, x *run) *executor {
	x.questions.Commands = x.Request.Commands
	return &executor{
		r:        r,
		home:     h,
		run:      x,
		settings: r.settings(h.ID()),
		privacy:  r.cfg.Privacy.Of(h.ID()),
		guard:    r.cfg.Guard(),
	}
}

// execute runs the execution. It delivers the result before it closes the sandbox; a
// session keeps its sandbox.
func (e *executor) execute(ctx context.Context) {
	ctx, span := e.telemetry().Start(ctx, telemetry.Execution,
		telemetry.Facts{Tenant: e.home.ID().String(), Session: e.run.Request.SessionID, Execution: e.run.id})
	if res := checkOf(e).Before(ctx); res != nil {
		e.finish(ctx, span, *res, nil)
		return
	}
	sb, err := e.prepare(ctx)
	defer e.leave()
	if err != nil {
		res, err := notRun(ctx, err)
		e.finish(ctx, span, res, err)
		return
	}
	res, err := e.runCode(ctx, sb)
	if e.step != nil {
		res, err = e.step.End(res, err, session.Step{Description: e.run.Request.Description, Code: e.run.Request.Code,
			Vars: e.run.Request.Vars}, e.run.record)
		e.finish(ctx, span, res, err)
		return
	}
	defer func() {
		if err := sb.Close(); err != nil {
			e.r.cfg.Log.Error("close a sandbox", "error", err)
		}
	}()
	e.finish(ctx, span, res, err)
	if e.r.cfg.Queue.Load().Waiting == 0 && ctx.Err() == nil {
		select {
		case <-time.After(closeDelay):
		case <-e.r.registry.closing: // whoever closes the runner has the answer
		}
	}
}

// prepare waits for the turn of the session and for a slot, and returns the session's interpreter, or a
// new sandbox.
func (e *executor) prepare(ctx context.Context) (sb sandbox.Sandbox, err error) {
	if e.run.Request.SessionID != "" {
		if e.step, err = enterStep(ctx, e); err != nil {
			return nil, err
		}
	}
	if err := enterQueue(ctx, e); err != nil {
		return nil, err
	}
	if err := checkRecorded(ctx, e); err != nil {
		e.run.cancel(err)
		return nil, err
	}
	if e.step != nil {
		return openInterpreter(ctx, e)
	}
	return newSandbox(ctx, e)
}

// leave gives up the slot and the turn.
func (e *executor) leave() {
	if e.slot != nil {
		e.slot.Release()
	}
	if e.step != nil {
		e.step.Leave()
	}
}

// closeDelay delays closing a sandbox so that the answer reaches the caller first,
// unless others wait for the slot. The kernel destroys a process in one step, which
// keeps a processor busy for a millisecond or two.
const closeDelay = 3 * time.Millisecond

// checkOf returns the check of the execution with guardrails.
func checkOf(e *executor) guard.Check {
	c := guard.Check{
		Guard:    e.guard,
		Code:     e.run.Request.Code,
		Vars:     e.run.Request.Vars,
		Replayed: e.run.Request.Replay != nil,
		Audit:    e.r.cfg.Audit,
		Report:   &e.run.Report,
		Line:     audit.Line{Tenant: e.home.ID(), Execution: e.run.id, Session: e.run.Request.SessionID},
	}
	if e.run.internal {
		c.Guard = nil
	}
	return c
}

// notRun returns the outcome of an execution whose code never ran: cancelled if ctx has
// ended, else err.
func notRun(ctx context.Context, err error) (reply.Result, error) {
	cause := context.Cause(ctx)
	if cause == nil {
		return reply.Result{}, err
	}
	var res reply.Result
	res.Output = []string{}
	reply.Limits{}.Explain(&res, sandbox.Outcome{Status: sandbox.Cancelled}, cause)
	return res, nil
}

// telemetry returns the recorder; nil for an internal execution, which Sandpiper itself
// started.
func (e *executor) telemetry() *telemetry.Recorder {
	if e.run.internal {
		return nil
	}
	return e.r.cfg.Telemetry
}

// auditLine returns a line about the execution. It has the session only if the step was entered.
func auditLine(e *executor, kind audit.Kind) audit.Line {
	line := audit.Line{Kind: kind, Tenant: e.home.ID(), Execution: e.run.id}
	if e.step != nil {
		line.Session = e.run.Request.SessionID
	}
	return line
}

func enterQueue(ctx context.Context, e *executor) error {
	inBackground := func() bool { return e.run.background.Load() != nil }
	e.slot = &queue.Slot{Queue: e.r.cfg.Queue, Owner: e.home.ID().String(), Background: inBackground, Report: e.run.reportQueued}
	_, waited := e.telemetry().Start(ctx, telemetry.Queue, telemetry.Facts{Tenant: e.home.ID().String()})
	defer waited.End("")
	return e.slot.Enter(ctx)
}

// newGate returns the redact.Gate of the execution. That of an internal one
// changes nothing.
func (e *executor) newGate() *redact.Gate {
	if e.run.internal {
		return e.r.passGate
	}
	of := redact.Owner{Tenant: e.home.ID(), Vault: e.home.Vault, Session: e.run.Request.SessionID, Execution: e.run.id}
	if e.privacy.Mode() == redact.Strict {
		of.Local = e.step.Locals()
	}
	return e.privacy.For(of)
}

// builder returns the builder of the execution's result.
func (e *executor) builder() reply.Builder {
	return reply.Builder{
		Store:    reply.Store{Workspace: e.home.Workspace, Gate: e.gate, Scratch: e.r.cfg.Scratch, Large: &e.r.largeMu},
		ID:       e.run.id,
		MaxValue: e.r.cfg.ReplyBytes,
		Internal: e.run.internal,
	}
}

// program returns the program for the sandbox. Code without the words "servers" and
// "call_tool" skips the preflight check; so does a replay, whose calls have passed it and are compared with the record.
func programOf(ctx context.Context, e *executor) (p sandbox.Program, err error) {
	x, cfg, code := e.run, e.r.cfg, e.run.Request.Code
	names := strings.Contains(code, "servers") || strings.Contains(code, "call_tool")
	p = sandbox.Program{
		ID: x.id, Code: code, Privacy: e.privacy.Mode() != redact.Off && !x.internal,
		Preflight: names && cfg.Tools != nil && !x.internal && !x.record.Replays(), DryRun: e.run.Request.DryRun,
		DescribeTables: !x.internal,
	}
	if e.allowsNetwork() {
		p.Network = cfg.Network.Module
	}
	if !x.internal {
		p.Restriction = cfg.Restriction.Module
	}
	p.MeasureCPU = e.home.Quotas.Limits(quota.CPU)
	p.Seed, p.Clock = x.Seed, x.record.ClockReadings()
	if p.Tokens, p.NumberTokens, err = e.gate.Restorer().Lookup(ctx, code); err != nil {
		return p, err
	}
	p.Vars, err = e.gate.Restorer().Variables(ctx, e.run.Request.Vars)
	return p, err
}

// runCode runs the code in an open sandbox and returns its result.
func (e *executor) runCode(ctx context.Context, sb sandbox.Sandbox) (reply.Result, error) {
	e.gate = e.newGate()
	defer e.gate.Ingester().Wait() // the report of the execution has the findings in answers
	program, err := programOf(ctx, e)
	if err != nil {
		return reply.Result{}, err
	}
	out := e.builder().NewOutput(e.r.cfg.ReplyBytes, e.settings.OutputBytes, e.run.cancel)
	limit := clock.New(e.run.Request.Timeout, func() { e.run.cancel(sandbox.ErrTimeout) })
	defer limit.Stop()
	host := newHost(e, out, limit)
	host.busy.load.meter, _ = sb.(sandbox.Meter)
	limit.Resume()
	outcome, err := sb.Run(ctx, program, host)
	if outcome.Status == sandbox.Refused && program.Restriction == "" && !host.tools.Refused() {
		outcome = sandbox.Outcome{Status: sandbox.Crashed, ErrorType: string(sandbox.Crashed),
			Error: "the worker reported a refusal that the host did not make"}
	}
	outcome = host.dry.AdjustOutcome(outcome)
	res := reply.Result{Elapsed: limit.Ran(), Usage: outcome.Usage}
	limit.Stop()
	if err == nil {
		if blocked := checkOf(e).After(ctx, outcome, out.Items()); blocked != nil {
			out.Discard()
			blocked.Elapsed, blocked.Usage = res.Elapsed, res.Usage
			return *blocked, nil
		}
	}
	out.Finish(ctx, &res)
	if err != nil {
		return reply.Result{}, publicError(e.r.cfg.Log, err, "the sandbox failed while the code ran")
	}
	err = buildResult(ctx, e, &res, outcome, host)
	return res, err
}

// buildResult fills the result from the outcome of the code.
func buildResult(ctx context.Context, e *executor, res *reply.Result, outcome sandbox.Outcome, host *host) error {
	if tape := e.run.Request.Tape; tape != nil {
		tape.SetResult(outcome.Result)
	}
	limitsOfResult(e).Explain(res, outcome, context.Cause(ctx))
	host.failed.nameSource(res)
	host.unknown.addTo(res)
	res.ExplainDisk(ctx, e.home.Workspace)
	b := e.builder()
	err := b.AddOutcome(ctx, res, outcome)
	e.gate.Ingester().Wait()
	if err == nil {
		err = host.dry.AddTo(ctx, res, e.home.Journal, e.run.Request.Subset)
	}
	if err == nil {
		err = b.PromoteTokens(ctx, res)
	}
	b.AddImages(ctx, res, outcome.Images)
	return err
}

// limits returns the limits of the execution, for messages.
func limitsOfResult(e *executor) reply.Limits {
	s := e.settings
	l := s.Limits
	all := reply.Limits{
		Timeout:     e.run.Request.Timeout,
		MaxTimeout:  l.MaxTimeout,
		Sandbox:     sandboxLimits(e),
		MaxMemoryMB: l.MaxMemoryMB,
		OutputBytes: s.OutputBytes,
		Network:     e.allowsNetwork(),
	}
	if e.r.cfg.Tools != nil {
		all.Disabled = e.r.cfg.Tools.For(e.home.ID(), e.run.Request.Subset).Now().Disabled.Check
	}
	return all
}

// allowsNetwork reports whether the code may send HTTP requests.
func (e *executor) allowsNetwork() bool {
	return e.settings.Network && e.r.cfg.Tools != nil && !e.run.internal
}

// originOf describes who makes the calls of an execution.
func originOf(e *executor) tool.Origin {
	return tool.Origin{Code: e.run.Request.Code, Client: e.run.Request.Client, Interpreter: e.step.Interpreter()}
}
