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

// exit is the border around one execution; what is ours, and no tenant's, needs
// none.
func (r *Runner) exit(home *home.Home, x *run, st *step, req Request) *redact.Exit {
	if x.unlisted {
		return r.none
	}
	of := redact.Owner{Tenant: home.ID(), Vault: home.Vault, Session: req.SessionID, Execution: x.id}
	if r.cfg.Privacy.Mode() == redact.Strict {
		of.Local = st.locals()
	}
	return r.cfg.Privacy.For(of)
}

// program is what the sandbox runs. Code that names no tool need not be checked
// for how it does.
func (r *Runner) program(ctx context.Context, x *run, exit *redact.Exit, req Request) (p sandbox.Program, err error) {
	names := strings.Contains(req.Code, "servers") || strings.Contains(req.Code, "call_tool")
	p = sandbox.Program{
		ID: x.id, Code: req.Code, Privacy: r.cfg.Privacy.Mode() != redact.Off && !x.unlisted,
		Restricted: r.cfg.Restricted && !x.unlisted, Preflight: names && r.cfg.Tools != nil && !x.unlisted, DryRun: req.DryRun,
	}
	p.Seed, p.Clock = x.seed, x.record.ClockReadings()
	if p.Tokens, p.NumberTokens, err = exit.ResolveTokens(ctx, req.Code); err != nil {
		return p, err
	}
	p.Vars, err = exit.RestoreVariables(ctx, req.Vars)
	return p, err
}

// run runs the code in an open sandbox and makes the result of it.
func (r *Runner) run(ctx context.Context, home *home.Home, x *run, st *step, req Request, box sandbox.Sandbox, place *place) (Result, error) {
	exit := r.exit(home, x, st, req)
	program, err := r.program(ctx, x, exit, req)
	if err != nil {
		return Result{}, err
	}
	files := store{ctx: context.WithoutCancel(ctx), home: home, exit: exit, scratch: r.cfg.Scratch, large: &r.large}
	spill := spiller{files: files, id: x.id, most: r.cfg.ReplyBytes, exit: exit}
	if x.unlisted { // what comes of it is for us, and leaves nothing in the workspace
		spill.most = math.MaxInt
	}
	out := &output{
		head: exit.Truncate,
		room: r.cfg.ReplyBytes, left: r.cfg.OutputBytes, over: x.cancel,
		open: func() (file, error) { return files.Create(spill.name(".output.txt")) },
	}
	limit := clock.New(req.Timeout, func() { x.cancel(sandbox.ErrTimeout) })
	defer limit.Stop()

	began := time.Now()
	limit.Resume()
	host := newHost(home, x, st, out, r.cfg.Tools, exit, waits{limit, place}, req.DryRun)
	host.guard = r.cfg.Guard
	outcome, err := box.Run(ctx, program, host)
	if outcome.Status == sandbox.Refused && !program.Restricted && !host.refused.Load() {
		outcome = sandbox.Outcome{Status: sandbox.Crashed, ErrorType: string(sandbox.Crashed), Error: "the code said that it was refused, and it was not"}
	}
	outcome, ends := host.dry.outcome(outcome)
	res := Result{Elapsed: time.Since(began), Usage: outcome.Usage}
	limit.Stop()

	if err == nil {
		if kept := r.keptBack(ctx, home, x, req, outcome, out.items); kept != nil {
			out.drop()
			kept.Elapsed, kept.Usage = res.Elapsed, res.Usage
			return *kept, nil
		}
	}
	out.finish(&res, spill.path(".output.txt"))
	if err != nil {
		return Result{}, r.shown(err, "the sandbox failed while the code ran")
	}
	r.granted(req).explain(&res, outcome, causeOf(ctx))
	explainDisk(ctx, home, &res)
	if res.Success() {
		err = spill.value(&res, outcome.Result)
	} else if !x.unlisted {
		res.Traceback, res.Stderr = outcome.Traceback, outcome.Stderr
		spill.errors(&res)
	}
	exit.Wait()
	if err == nil {
		err = r.keepPlan(ctx, host, &res, ends)
	}
	if err == nil {
		res, err = settled(ctx, exit, res)
	}
	spill.images(&res, outcome.Images)
	return res, err
}

// settled is a result without tokens that only its interpreter knows.
func settled(ctx context.Context, exit *redact.Exit, res Result) (Result, error) {
	if !exit.Strict() {
		return res, nil
	}
	b, err := json.Marshal(res)
	if err != nil {
		return res, err
	}
	text, err := exit.PromoteTokens(context.WithoutCancel(ctx), string(b))
	if err != nil {
		return res, err
	}
	var s Result
	return s, json.Unmarshal([]byte(text), &s)
}
