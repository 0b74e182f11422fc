// Package fault holds the kinds of error that the faces of Sandpiper (MCP,
// command line, HTTP) tell apart, and the one sentence of an error that is
// safe to show to a person or a model.
//
// The sentence is written where the error is made and never built from the
// cause: causes carry paths, data and other tenants' names, and stay in logs.
package fault

import (
	"errors"
	"fmt"
)

// Kind says whose turn it is after an error. The zero value is Internal.
type Kind int

const (
	Internal    Kind = iota // we failed; the person can only report it
	Invalid                 // an argument is wrong; the caller corrects it
	NotFound                // the named thing does not exist
	Denied                  // policy or isolation forbids it
	Exhausted               // a limit, quota or queue is full; try later or ask for less
	Unavailable             // something outside is missing or down
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

// Error is an error with a sentence that may be shown.
type Error struct {
	Kind    Kind
	Message string // one sentence: what was wrong, with which value, what is allowed
	Hint    string // what to do next; may be empty
	Cause   error  // for logs only; may be nil
}

// New makes an Error without a cause.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error around cause. The message must stand without the cause.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// WithHint returns a copy of e that also says what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Error is for logs: it includes the cause.
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
	if NoDescriptors(err) {
		return Unavailable
	}
	return Internal
}

// Message returns the sentence of err that may be shown. An error that is not
// an Error shows nothing of itself.
func Message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		if NoDescriptors(err) {
			return named(e.Message)
		}
		return e.Message
	}
	if NoDescriptors(err) {
		return noDescriptors
	}
	return "something went wrong inside Sandpiper; its log says what"
}

// Hint returns what to do next, or "".
func Hint(err error) string {
	if NoDescriptors(err) {
		return noDescriptorsHint
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	return ""
}
