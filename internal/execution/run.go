package execution

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// newExit returns the redact.Exit of one execution. An internal execution needs none.
func (r *Runner) newExit(home *home.Home, x *run, st *step, req Request) *redact.Exit {
	if x.internal {
		return r.passExit
	}
	of := redact.Owner{Tenant: home.ID(), Vault: home.Vault, Session: req.SessionID, Execution: x.id}
	if r.cfg.Privacy.Mode() == redact.Strict {
		of.Local = st.locals()
	}
	return r.cfg.Privacy.For(of)
}

// program returns the program for the sandbox. Code that names no tool skips the
// preflight check.
func (r *Runner) program(ctx context.Context, x *run, exit *redact.Exit, req Request) (p sandbox.Program, err error) {
	names := strings.Contains(req.Code, "servers") || strings.Contains(req.Code, "call_tool")
	p = sandbox.Program{
		ID: x.id, Code: req.Code, Privacy: r.cfg.Privacy.Mode() != redact.Off && !x.internal,
		Restricted: r.cfg.Restricted && !x.internal, Preflight: names && r.cfg.Tools != nil && !x.internal, DryRun: req.DryRun,
	}
	p.Seed, p.Clock = x.seed, x.record.ClockReadings()
	if p.Tokens, p.NumberTokens, err = exit.Restorer().Lookup(ctx, req.Code); err != nil {
		return p, err
	}
	p.Vars, err = exit.Restorer().Variables(ctx, req.Vars)
	return p, err
}

// run runs the code in an open sandbox and returns its result.
func (r *Runner) run(ctx context.Context, home *home.Home, x *run, st *step, req Request, box sandbox.Sandbox, place *queueSlot) (Result, error) {
	exit := r.newExit(home, x, st, req)
	program, err := r.program(ctx, x, exit, req)
	if err != nil {
		return Result{}, err
	}
	files := workspaceFiles{ctx: context.WithoutCancel(ctx), home: home, exit: exit, scratch: r.cfg.Scratch, largeMu: &r.largeMu}
	spill := spiller{files: files, id: x.id, maxValue: r.cfg.ReplyBytes, exit: exit}
	if x.internal { // the result stays in the daemon; nothing is written to the workspace
		spill.maxValue = math.MaxInt
	}
	out := &output{
		truncate:  exit.Truncate,
		replyLeft: r.cfg.ReplyBytes, bytesLeft: r.cfg.OutputBytes, cancel: x.cancel,
		create: func() (file, error) { return files.Create(spill.name(".output.txt")) },
	}
	limit := clock.New(req.Timeout, func() { x.cancel(sandbox.ErrTimeout) })
	defer limit.Stop()

	began := time.Now()
	limit.Resume()
	host := newHost(home, x, st, out, r.cfg.Tools, exit, pausable{limit, place}, req.DryRun)
	host.guard = r.cfg.Guard
	outcome, err := box.Run(ctx, program, host)
	if outcome.Status == sandbox.Refused && !program.Restricted && !host.refused.Load() {
		outcome = sandbox.Outcome{Status: sandbox.Crashed, ErrorType: string(sandbox.Crashed), Error: "the code reported a refusal that did not happen"}
	}
	outcome, ends := host.dry.adjustOutcome(outcome)
	res := Result{Elapsed: time.Since(began), Usage: outcome.Usage}
	limit.Stop()

	if err == nil {
		if blocked := r.guardAfter(ctx, home, x, req, outcome, out.items); blocked != nil {
			out.discard()
			blocked.Elapsed, blocked.Usage = res.Elapsed, res.Usage
			return *blocked, nil
		}
	}
	out.finish(&res, spill.path(".output.txt"))
	if err != nil {
		return Result{}, r.publicError(err, "the sandbox failed while the code ran")
	}
	r.granted(req).explain(&res, outcome, contextCause(ctx))
	explainDisk(ctx, home, &res)
	if res.Success() {
		err = spill.value(&res, outcome.Result)
	} else if !x.internal {
		res.Traceback, res.Stderr = outcome.Traceback, outcome.Stderr
		spill.errors(&res)
	}
	exit.Ingester().Wait()
	if err == nil {
		err = r.storePlan(ctx, host, &res, ends)
	}
	if err == nil {
		res, err = settleResult(ctx, exit, res)
	}
	spill.images(&res, outcome.Images)
	return res, err
}

// settleResult replaces tokens in a result that only its interpreter knows by ones that
// remain valid.
func settleResult(ctx context.Context, exit *redact.Exit, res Result) (Result, error) {
	if !exit.Strict() {
		return res, nil
	}
	b, err := json.Marshal(res)
	if err != nil {
		return res, err
	}
	text, err := exit.Tokens().Promote(context.WithoutCancel(ctx), string(b))
	if err != nil {
		return res, err
	}
	var s Result
	return s, json.Unmarshal([]byte(text), &s)
}
