// Package fault defines the kinds of error that Sandpiper's interfaces (MCP,
// command line, HTTP) distinguish, and the message of an error that is safe to
// show to a person or a model.
//
// The message is written where the error is created and never built from the
// cause: causes contain paths, data and other tenants' names, and belong in logs only.
//
// All functions are safe for concurrent use.
package fault

import (
	"errors"
	"fmt"
	"strconv"
)

// Kind classifies an error by its remedy. The zero value is Internal.
type Kind int

const (
	Internal    Kind = iota // Sandpiper failed; the user can only report it
	Invalid                 // an argument is wrong; the caller corrects it
	NotFound                // the named object does not exist
	Denied                  // policy or isolation forbids it
	Exhausted               // a limit, quota or queue is full; try later or ask for less
	Unavailable             // an external dependency is missing or down
)

func (k Kind) String() string {
	switch k {
	case Invalid:
		return "invalid"
	case NotFound:
		return "not found"
	case Denied:
		return "denied"
	case Exhausted:
		return "exhausted"
	case Unavailable:
		return "unavailable"
	default:
		return "internal"
	}
}

// Error is an error with a message that is safe to show.
type Error struct {
	Kind    Kind
	Message string // one sentence: the problem, the value, what is allowed
	Hint    string // the next step; may be empty
	Quota   string // of an Exhausted error, the quota or budget that is used up; may be empty
	Cause   error  // for logs only; may be nil
}

// New returns an Error without a cause.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error with a cause. The message must be complete without the cause.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// WithHint returns a copy of e with a hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithQuota returns a copy of e with the name of the quota or budget that is used up.
func (e *Error) WithQuota(name string) *Error {
	c := *e
	c.Quota = name
	return &c
}

// Error returns the message with the cause, for logs.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// KindOf returns the kind of the outermost Error in err's chain, or Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if shortageOf(err) != nil {
		return Unavailable
	}
	if d := diskFault(err); d != nil {
		return d.Kind
	}
	return Internal
}

// Sentence returns the message of err and its hint in one line.
func Sentence(err error) string {
	if hint := Hint(err); hint != "" {
		return Message(err) + "; " + hint
	}
	return Message(err)
}

// Message returns the message of err that is safe to show. For an error that is
// not an Error the message is generic.
func Message(err error) string {
	s := shortageOf(err)
	if e, ok := errors.AsType[*Error](err); ok {
		if s != nil {
			return s.append(e.Message)
		}
		return e.Message
	}
	if s != nil {
		return s.message
	}
	if d := diskFault(err); d != nil {
		return d.Message
	}
	return "something went wrong inside Sandpiper; its log says what"
}

// Hint returns the next step, or "".
func Hint(err error) string {
	if s := shortageOf(err); s != nil {
		return s.hint
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	if d := diskFault(err); d != nil {
		return d.Hint
	}
	return ""
}

// Quota returns the name of the quota or budget that is used up, or "".
func Quota(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Quota
	}
	return ""
}

// Quoted returns a text in quotes for a message, whole: a part of a private value would not be found
// and replaced in it. A text above 1 KiB is described by its size.
func Quoted(text string) string {
	if len(text) > 1<<10 {
		return fmt.Sprintf("(a text of %d bytes)", len(text))
	}
	return strconv.Quote(text)
}
