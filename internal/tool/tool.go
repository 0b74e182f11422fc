// Package tool defines the data of a tool: its reference, its definition, a call
// and its result. A feature that surrounds a call is a Caller that wraps a Caller.
//
// The package does no I/O and depends on no server and no protocol. Its functions
// are safe for concurrent use.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Ref names one tool of one server: the tool by its MCP name, the server by its
// name in the configuration.
type Ref struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

func (r Ref) String() string { return r.Server + "." + r.Tool }

// Definition describes a tool. Its texts come from the server and are data, never
// instructions or code.
type Definition struct {
	Ref
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input_schema"`            // JSON schema of the arguments, an object or a boolean; never nil
	Output      json.RawMessage `json:"output_schema,omitempty"` // JSON schema of the structured result; nil if none is declared
	Hints       Hints           `json:"annotations,omitzero"`
}

// Hints are the annotations by which a server describes the effects of a tool; nil
// means not set. They are as reliable as the server.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Trusted returns the hints that count. An untrusted server can declare a tool
// dangerous, but not harmless.
func (h Hints) Trusted(trusted bool) Hints {
	if trusted {
		return h
	}
	only := func(b *bool, bad bool) *bool {
		if b != nil && *b == bad {
			return b
		}
		return nil
	}
	return Hints{only(h.ReadOnly, false), only(h.Destructive, true), only(h.Idempotent, false), only(h.OpenWorld, true)}
}

// Reads reports whether the hints declare that the tool changes nothing.
func (h Hints) Reads() bool {
	return h.ReadOnly != nil && *h.ReadOnly && (h.Destructive == nil || !*h.Destructive)
}

// Repeatable reports whether the hints declare that a second call like the first has no further
// effect.
func (h Hints) Repeatable() bool { return h.Reads() || h.Idempotent != nil && *h.Idempotent }

// Call is one call of a tool.
type Call struct {
	Ref
	Execution  string          // ID of the execution whose code makes the call; "" if there is none
	Session    string          // session of the execution; "" if there is none
	Number     int             // number of the recorded request of the execution, from 1; 0 if it is not recorded
	Args       json.RawMessage // a JSON object; nil means no arguments
	SortedArgs json.RawMessage // Args with sorted keys, by which calls are compared; nil until they are validated
	References []Reference     // references to results of earlier calls of a plan, in a dry run
	Repeatable bool            // another call like it has no further effect
	Origin     Origin          // shown to a person for approval
	// Progress receives the progress of the tool; nil discards it.
	Progress func(done, total float64, message string)
	// Starting is called when the call begins to wait for its server to start; the
	// function that it returns is called when the wait ends. May be nil.
	Starting func() (started func())
	// Store stores the content of a result that is too large for memory and returns its
	// description, an object that becomes Result.File. content is valid until it returns.
	// nil means that such a result is refused.
	Store func(ctx context.Context, content []byte) (json.RawMessage, error)
	// Hold waits until there is memory for a result of so many bytes, at most, before it is
	// read or copied. nil means that there is no limit.
	Hold func(ctx context.Context, bytes int64) error
	// Ask forwards a question of the server to the user (MCP elicitation). Calls may
	// overlap and end with their context; Call returns after all of them have
	// returned. nil means that questions are not supported.
	Ask func(context.Context, Question) (Reply, error)
	// Approve asks the user whether the call may be made. It ends with its context.
	// nil means that approval is not possible while the call is open.
	Approve func(context.Context, Approval) (Reply, error)
	// Decide asks the user what happened to a call of an earlier run, whose outcome is unknown. It is
	// like Approve. The zero Decision means that no decision was made. nil means that no person can be asked.
	Decide func(ctx context.Context, number int, ref Ref, args json.RawMessage) (Decision, error)
	// Occurrence numbers the identical calls of one execution, from 1; 0 if it is not
	// known yet.
	Occurrence int
	// Trace is the W3C trace context that is sent to the server; nil sends none.
	Trace map[string]string
}

// Decision is the decision of a person about a call whose outcome is unknown.
type Decision struct {
	Outcome string          // TookEffect, NoEffect or Stop; "" if no decision was made
	Answer  json.RawMessage // of a call that took effect, as the code gets it; nil if it is not known
}

// Outcomes of a Decision, as persons write them.
const (
	TookEffect = "done"
	NoEffect   = "not-done" // the call is made
	Stop       = "stop"     // the execution ends for good
)

// Origin describes the code and the client that make a call.
type Origin struct {
	Code        string `json:"code,omitempty"`        // Python that makes it; "" if none does
	Client      string `json:"client,omitempty"`      // name and version by which the client introduced itself; "" if it is not known
	Interpreter string `json:"interpreter,omitempty"` // ID of the live interpreter of a session; "" if there is none
}

// ComparableArgs returns the arguments in the form in which calls are compared:
// with sorted keys once they are validated.
func (c Call) ComparableArgs() json.RawMessage {
	if c.SortedArgs != nil {
		return c.SortedArgs
	}
	return c.Args
}

// HoldResult calls Hold, if there is one.
func (c Call) HoldResult(ctx context.Context, bytes int64) error {
	if c.Hold == nil {
		return nil
	}
	return c.Hold(ctx, bytes)
}

// Approval asks whether a call may be made. Its text contains the arguments without
// redaction, so it may be shown to the user only.
type Approval struct {
	ID string
	Ref
	Question
	Asker   string    // describes the origin of the call, with its code, for the user only; "" if that is not known
	Expires time.Time // when it can no longer be answered; zero if that is not known
}

// Question is a question of a server to the user during a call. Its texts come from
// the server and are data, never instructions.
type Question struct {
	Text   string
	Schema json.RawMessage // of an object, which may be nested
	Of     string          // number of the recorded call and of the question during it; "" without a record
}

// Action is the response of the user to a question.
type Action string

// The actions, as MCP names them.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel" // dismissed without a choice
)

// Reply is the outcome of a question.
type Reply struct {
	Action  Action          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"` // for Accept: an object that fits the schema
	By      string          `json:"-"`                 // source of the answer to an approval; "" means the MCP client
}

// Caller calls tools: an upstream, or a wrapper around another Caller. It is safe
// for concurrent use.
type Caller interface {
	// Call returns the result of the tool. The error is a *Failure if the tool or its
	// server reported one; any other error means that there is no answer. It is a *NotSent,
	// with the reason, if the call was certainly not sent, and a *NotKept if it was answered.
	Call(ctx context.Context, c Call) (Result, error)
}

// Checker is an optional ability of a Caller: it refuses calls that it would not make before
// anything else is decided about them.
type Checker interface {
	// Check returns an error for a call that would be refused, and otherwise where it is sent, in
	// the words of the configuration; "" if that is the server itself.
	Check(ctx context.Context, c Call) (destination string, err error)
}

// Failure is an error that a tool reported, or with which a call was refused, or ended without an
// answer.
type Failure struct {
	Ref
	Message   string          // as the tool reported it, unless it is Local
	Data      json.RawMessage // structured content of the error; nil if there is none
	Unknown   bool            `json:",omitempty"` // the call was sent, and nothing shows whether it took effect
	NotMade   bool            `json:",omitempty"` // the call was not sent: it had no effect
	Local     bool            `json:",omitempty"` // Sandpiper reports it; the server has not answered
	Withheld  bool            `json:",omitempty"` // the tool answered, and its answer was withheld
	Refused   string          `json:",omitempty"` // name of the rule of Sandpiper by which the call was not made; "" if it was made
	Cancelled bool            `json:",omitempty"` // the code stopped waiting for the answer
	Retryable bool            `json:",omitempty"` // the same call may be made again, and may succeed then
	Status    int             `json:",omitempty"` // of HTTP; 0 if there is none
	Later     time.Duration   `json:",omitempty"` // after which the server accepts another call; 0 if it did not say
	Answer    Result          // the complete result, to forward; empty if there was none
	// Cause has the kind of the error; nil if the tool reported it, or if the Failure was read from a
	// record.
	Cause error `json:"-"`
}

// ErrCancelled is the cause with which the context of a call ends if the code that made it no longer
// waits for the answer.
var ErrCancelled = errors.New("the code no longer waits for the call")

// Outcomes of a call that failed.
const (
	Failed  = "failed"   // the tool or its server answered with an error
	Unknown = "unknown"  // nothing shows whether it took effect
	NotMade = "not_made" // it was not sent
	Made    = "made"     // the tool answered, and its answer was withheld
)

// Outcome returns the outcome of the call.
func (f *Failure) Outcome() string {
	switch {
	case f.Unknown:
		return Unknown
	case f.NotMade, f.Refused != "":
		return NotMade
	case f.Withheld:
		return Made
	}
	return Failed
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

func (f *Failure) Error() string { return f.Ref.String() + ": " + f.Message }

// NotSent is the error of a call of which certainly nothing was sent to its server: it has had no
// effect.
type NotSent struct{ Err error }

func (e *NotSent) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NotSent) Unwrap() error { return e.Err }

// IsNotSent reports whether err is that of a call that was not sent.
func IsNotSent(err error) bool {
	_, ok := errors.AsType[*NotSent](err)
	return ok
}

// NotKept is the error of a call that its server answered with a result that cannot be kept: there
// is no memory or place for it. The call has been made.
type NotKept struct{ Err error }

func (e *NotKept) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NotKept) Unwrap() error { return e.Err }

// Kind is the type of a Part.
type Kind string

const (
	Text  Kind = "text"
	Image Kind = "image"
	Audio Kind = "audio"
	Blob  Kind = "blob" // the bytes of a resource
	Link  Kind = "link" // a reference to a resource
)

// Part is one piece of a result's content.
type Part struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text,omitempty"` // of Text, and the description of a Link
	MIME string `json:"mime,omitempty"`
	Data []byte `json:"data,omitempty"` // of Image, Audio and Blob
	URI  string `json:"uri,omitempty"`  // of Blob and Link, and of a Text that is a resource
	Name string `json:"name,omitempty"` // of Link
	// Raw is the part as the server sent it, with the protocol fields that a Part
	// lacks, to forward; nil if no server sent it.
	Raw json.RawMessage `json:"-"`
}

// Result is the result of a call.
type Result struct {
	Parts      []Part          `json:"parts,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"` // nil if there is none
	As         Form            `json:"as,omitempty"`         // how Value interprets it
	File       json.RawMessage `json:"file,omitempty"`       // of Call.Store, instead of all others; nil if there is none
	Planned    int             `json:"-"`                    // number of the call in the plan of a dry run; 0 if the call was made
	// PlannedSchema is the schema of the result that a planned call would have; nil if unknown.
	PlannedSchema json.RawMessage `json:"-"`
	Meta          json.RawMessage `json:"-"` // _meta of MCP, an object; nil if there is none
	// Outcome is that of a call whose result is an error of HTTP: Failed or Unknown; "" for others.
	Outcome string `json:"outcome,omitempty"`
}

// Encode encodes the result as json.Marshal does, but copies the structured content, which
// is JSON already, instead of reading it again.
func (r Result) Encode() ([]byte, error) {
	structured := r.Structured
	r.Structured = nil
	rest, err := json.Marshal(r)
	if err != nil || structured == nil {
		return rest, err
	}
	const before = `{"structured":`
	b := make([]byte, 0, len(before)+len(structured)+len(rest))
	b = append(append(b, before...), structured...)
	if string(rest) == "{}" {
		return append(b, '}'), nil
	}
	return append(append(b, ','), rest[1:]...), nil
}
