package unfinished

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Decide applies the decision of a person about a call of an execution that does not run, whose outcome
// is unknown: Resume then gives the code its answer, or makes it. A number of 0 means the only such call.
// After tool.Stop the execution cannot be resumed.
func Decide(ctx context.Context, r *execution.Runner, h *home.Home, id string, number int, d tool.Decision) error {
	if err := execution.CheckNotBackground(ctx, h, id); err != nil {
		return decideElsewhere(ctx, h, id, number, d, err)
	}
	record, request, err := h.Journal.OpenRecord(ctx, id, notReplayed)
	if fault.KindOf(err) == fault.Unavailable { // a process runs it, and may ask
		return decideElsewhere(ctx, h, id, number, d, err)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound {
		return f.WithHint("`sandpiper executions list` lists those that can be resumed")
	}
	if err != nil {
		return err
	}
	if number == 0 {
		number, err = onlyUnknownCall(journal.UnknownCalls(record), id, d)
	}
	if err == nil {
		_, err = journal.Decide(ctx, record, number, d)
	}
	end := journal.Before(record)
	if u, ok := errors.AsType[*journal.Undecided](err); ok && u.Stopped {
		end, err = execution.Stopped(request), nil
	}
	if err == nil {
		err = closeQuestions(ctx, h, id, number)
	}
	if err == nil {
		r.Audit(audit.Line{Kind: audit.Decision, Tenant: h.ID(), Execution: id, Decision: strings.ReplaceAll(d.Outcome, "-", "_"),
			Outcome: "unknown_call"})
	}
	return errors.Join(err, record.End(ctx, end))
}

// decideElsewhere answers the question about a call of an execution that a process runs. Without such a
// question it returns the error otherwise.
func decideElsewhere(ctx context.Context, h *home.Home, id string, number int, d tool.Decision, otherwise error) error {
	asked, err := questionsAbout(ctx, h, id, number)
	if err != nil || len(asked) == 0 {
		return cmp.Or(err, otherwise)
	}
	if len(asked) > 1 {
		var all []string
		for _, r := range asked {
			all = append(all, strconv.Itoa(r.Occurrence))
		}
		_, err := onlyUnknownCall(all, id, d)
		return err
	}
	_, err = h.Approvals.Answer(ctx, asked[0].ID, approval.Answer{Approve: true, By: approval.CommandLine, Note: approval.DecisionNote(d),
		Asked: true})
	return err
}

// closeQuestions closes the questions about a call that is decided: no later call has their answers.
func closeQuestions(ctx context.Context, h *home.Home, id string, number int) error {
	asked, err := questionsAbout(ctx, h, id, number)
	for _, r := range asked {
		if r.State == approval.Approved {
			err = errors.Join(err, h.Approvals.Use(ctx, r.ID, r.Binding))
		} else {
			err = errors.Join(err, h.Approvals.Withdraw(ctx, r.ID))
		}
	}
	return err
}

// questionsAbout returns the questions about calls of an execution, or about the one with a number, that
// are open or whose answer was not used.
func questionsAbout(ctx context.Context, h *home.Home, id string, number int) ([]approval.Request, error) {
	if h.Approvals == nil {
		return nil, nil
	}
	all, err := h.Approvals.List(ctx, true)
	return slices.DeleteFunc(all, func(r approval.Request) bool {
		return r.Kind != approval.Outcome || r.State != approval.Open && r.State != approval.Approved || r.Execution != id ||
			number != 0 && r.Occurrence != number
	}), err
}

// onlyUnknownCall returns the number of the only call whose outcome is unknown.
func onlyUnknownCall(all []string, id string, d tool.Decision) (int, error) {
	switch len(all) {
	case 0:
		return 0, fault.New(fault.NotFound, "execution %s was not interrupted during a call", id)
	case 1:
		return strconv.Atoi(all[0])
	}
	return 0, fault.New(fault.Invalid, "the outcome of %d calls is unknown: %s", len(all), strings.Join(all, ", ")).
		WithHint("`sandpiper executions answer %s %s %s` decides about the first of them", id, all[0], d.Outcome)
}
