package toolcall

import (
	"context"
	"errors"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// unanswered converts the error of a call that was passed to its server into a *tool.Failure. A call
// without an answer has an unknown outcome, unless it was not sent, or a second one would have no
// further effect.
func unanswered(c call, err error) error {
	if err == nil {
		return nil
	}
	own, answered := errors.AsType[*tool.Failure](err)
	if !answered && tool.IsNotSent(err) {
		return NotMade(c.Ref, err)
	}
	f := failure(c.Ref, err)
	if _, made := errors.AsType[*tool.NotKept](err); made && !c.tool.TrustedHints.Repeatable() {
		f.Withheld = true
		f.Message = c.Ref.String() + " was called, but its answer could not be kept: " + strings.TrimSuffix(f.Message,
			".") + ". The call took effect: do not repeat it to get its answer"
		return &f
	}
	f.Unknown = true
	if answered {
		f = *own
	}
	switch {
	case f.Unknown && c.tool.TrustedHints.Repeatable():
		f.Unknown, f.Retryable = false, true
	case f.Unknown:
		f.Message = strings.TrimSuffix(f.Message, ".") + ". It is unknown whether " + c.Ref.String() +
			" took effect: check that before you call it again"
	}
	return &f
}

// cancelled reports whether the code that made a call has stopped waiting for it. Its execution goes
// on, and the record keeps that: when the code is run again, it waits for the call until it stops again.
func cancelled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), tool.ErrCancelled) }

// markCancelled marks a failure of a call for which the code no longer waits.
func markCancelled(ctx context.Context, err error) error {
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok || !f.Local || !cancelled(ctx) {
		return err
	}
	marked := *f
	marked.Cancelled = true
	return &marked
}

// NotMade returns the failure of a call, or of another request to a server, that was refused or
// could not be made.
func NotMade(ref tool.Ref, err error) *tool.Failure {
	f := failure(ref, err)
	f.NotMade, f.Retryable = true, isTransient(err)
	return &f
}

// asFailure converts any other error of a call with an outcome into a *tool.Failure.
func asFailure(ref tool.Ref, outcome string, err error) error {
	if _, ok := errors.AsType[*tool.Failure](err); ok || err == nil {
		return err
	}
	f := failure(ref, err)
	switch {
	case outcome == outcomeRefused, outcome == outcomePlanned, outcome == string(journal.NotMade):
		return NotMade(ref, err)
	case outcome == string(journal.Unknown):
		f.Unknown = true
	case outcome == string(journal.Answered), errors.Is(err, errAnswerBlocked):
		f.Withheld = true
	}
	return &f
}

func failure(ref tool.Ref, cause error) tool.Failure {
	f := tool.Failure{Ref: ref, Message: fault.Message(cause), Local: true, Cause: cause}
	if hint := fault.Hint(cause); hint != "" {
		f.Message += ": " + hint
	}
	return f
}

// isTransient reports whether the reason of an error may be gone later.
func isTransient(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.Unavailable || kind == fault.Exhausted
}

// outcomeOf returns the outcome of a call that ended with err.
func outcomeOf(err error) journal.Outcome {
	f, failed := errors.AsType[*tool.Failure](err)
	switch {
	case err == nil, failed && f.Withheld, errors.Is(err, errAnswerBlocked):
		return journal.Answered
	case failed && f.Unknown:
		return journal.Unknown
	case failed && f.Outcome() == tool.NotMade, tool.IsNotSent(err):
		return journal.NotMade
	case failed:
		return journal.Failed
	}
	return journal.Unknown
}
