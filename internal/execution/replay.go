package execution

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// resumable reports whether the execution has a record from which it can be resumed. The record of
// a step of a session is only for the session's log.
func (e *executor) resumable() bool { return e.run.record != nil && e.step == nil }

// callOnce returns the recorded answer of a call; without one it makes the call and
// records its answer, before the code gets it if it is durable.
func (h *host) callOnce(ctx context.Context, a journal.HostCall, durable bool, call func(context.Context) (any, error)) (any, error) {
	record := h.run.record
	if record == nil {
		return call(ctx)
	}
	a.Step = sandbox.StepOf(ctx)
	was, err := record.Next(ctx, a)
	if err != nil {
		return nil, err
	}
	if was.Answer != nil {
		return was.Answer.Value, was.Answer.Err()
	}
	value, err := call(journal.WithCall(ctx, was.Number))
	if ctx.Err() != nil { // the code does not see the answer
		return value, err
	}
	answer, wrong := journal.NewAnswer(value, err)
	if wrong != nil {
		return nil, fault.Wrap(fault.Internal, wrong, "the answer to %s cannot be encoded as JSON", a)
	}
	if !durable {
		record.SetAnswer(was.Number, answer)
		return value, err
	}
	if wrong := record.SetAnswerNow(ctx, was.Number, answer); wrong != nil {
		failed, _ := journal.NewAnswer(nil, wrong) // what the code sees
		record.SetAnswer(was.Number, failed)
		return nil, wrong
	}
	return value, err
}

// RecordClock implements sandbox.ClockRecorder.
func (h *host) RecordClock(step int, readings []int64) {
	h.run.record.AddClockReadings(step, readings)
}

// checkRecorded returns a divergence if tools that the first run called, or skills that it imported,
// have changed. The code does not start then: imports of a tool that is gone would fail in another way.
func checkRecorded(ctx context.Context, e *executor) error {
	for _, name := range journal.Skills(e.run.record) {
		found, err := e.home.Skills.Find(ctx, name, 0)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		if err := journal.CheckSkill(e.run.record, name, found.Metadata.CodeHash); err != nil {
			return err
		}
	}
	if e.r.cfg.Tools == nil || !e.run.record.Replays() {
		return nil
	}
	v := e.r.cfg.Tools.For(e.home.ID(), e.run.Request.Subset)
	return v.Calls.CheckRecorded(ctx, v.Viewer, e.run.record)
}

// endReplay ends the execution if err reports that the code diverges from its record, or that nobody
// has decided about a call of an unknown outcome.
func (h *host) endReplay(err error) {
	if d, ok := errors.AsType[*journal.Divergence](err); ok {
		h.run.cancel(d)
	}
	if u, ok := errors.AsType[*journal.Undecided](err); ok {
		h.run.cancel(u)
	}
}
