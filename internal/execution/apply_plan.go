package execution

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// applyPlan asks the user to approve a plan and then makes exactly its calls. The
// handle is like that of an execution, with the approval as its question. An error
// means that the plan cannot be applied: it was applied before, has expired, or a tool
// in it has changed.
func applyPlan(ctx context.Context, r *Runner, h *home.Home, id string) (*Execution, error) {
	if r.cfg.Tools == nil {
		return nil, plan.NotFound(id)
	}
	p, err := plan.Open(ctx, h.Journal, id, func(ctx context.Context, subset string, p toolcall.Planned) error {
		return r.cfg.Tools.Calls.CheckUnchanged(ctx, toolcall.Owner{Home: h, Subset: subset}, p)
	})
	if err != nil {
		return nil, err
	}
	x := newRun(id, StoredRequest{}, nil)
	e := newExecutor(r, h, x)
	err = launch(ctx, e, func(ctx context.Context) {
		e.gate = e.newGate()
		x.result, x.err = e.applyPlan(ctx, p)
		x.result.ExecutionID = id
		auditEnd(e)
		r.registry.markEnded(x)
		close(x.ended)
	})
	if err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	return r.handle(x), nil
}

func (e *executor) applyPlan(ctx context.Context, p *plan.Plan) (res reply.Result, err error) {
	began := time.Now()
	var wrong error
	defer func() {
		if wrong != nil {
			e.r.cfg.Log.Error("record the end of a plan", "plan", e.run.id, "error", wrong)
		}
	}()
	if err := p.RequireApproval(ctx, e.home.Approvals, e.askToApply); err != nil {
		res, e.run.resumable, wrong = p.Deny(ctx, err)
		if fault.KindOf(err) == fault.Denied {
			return res, nil
		}
		return notRun(ctx, err)
	}
	caller := e.r.cfg.Tools.Calls.For(toolcall.Owner{
		Home:     e.home,
		Subset:   p.Subset,
		Gate:     e.gate,
		Run:      p.Record(),
		Sandbox:  policy.NoCode,
		Approved: true,
	})
	var results []any
	res, results, e.run.resumable, wrong = p.Apply(ctx, caller)
	res.Elapsed = time.Since(began)
	value, err := json.Marshal(results)
	if err != nil {
		return res, err
	}
	err = e.builder().SetValue(ctx, &res, value)
	return res, err
}

// askToApply asks the caller of the plan to approve it.
func (e *executor) askToApply(ctx context.Context, r approval.Request) (tool.Reply, error) {
	form, err := question.ParseForm(json.RawMessage(approval.Form))
	if err != nil {
		return tool.Reply{}, err
	}
	q := question.Question{ID: r.ID, Approval: r.ID, Text: r.Text(tool.Hints{}), Asker: r.Asker(), Schema: form.Schema}
	open, err := e.run.questions.Add(q, form, e.gate.Restorer().Variables, nil)
	if err != nil {
		return tool.Reply{}, err
	}
	defer e.run.questions.Remove(open)
	e.run.notify()
	return open.Wait(ctx)
}
