// Package tool has the nouns of a tool: what it is called, what it takes and
// gives, one call and what came of it. All that surrounds a call is a Caller
// around a Caller.
//
// The values here are plain and survive JSON. The package does no I/O, knows no
// server and no protocol, and is safe for concurrent use.
package tool

import (
	"context"
	"encoding/json"
)

// Ref names one tool of one server, both as the server and the operator wrote
// them.
type Ref struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

func (r Ref) String() string { return r.Server + "." + r.Tool }

// Definition is a tool as its server describes it. The texts come from the
// server: they are data, never instructions and never code.
type Definition struct {
	Ref
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input_schema"`            // JSON schema of the arguments, an object or a boolean; never nil
	Output      json.RawMessage `json:"output_schema,omitempty"` // JSON schema of the structured result; nil if none is declared
	Hints       Hints           `json:"annotations,omitzero"`
}

// Hints are what a server says of a tool's effects; nil is unsaid. They are only
// as good as the server.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Trusted are the hints that count: a server that is not trusted can say that a
// tool is dangerous, and not that it is harmless.
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

// Reads reports whether a tool with these hints is said to change nothing.
func (h Hints) Reads() bool {
	return h.ReadOnly != nil && *h.ReadOnly && (h.Destructive == nil || !*h.Destructive)
}

// Call is one call of a tool.
type Call struct {
	Ref
	Execution  string          // whose code makes it; "" if none does
	Session    string          // of that; "" if there is none
	Number     int             // among what the execution asks for, from 1; 0 if that is not recorded
	Args       json.RawMessage // a JSON object; nil means no arguments
	SortedArgs json.RawMessage // Args with sorted keys, by which calls are compared; nil until they are checked
	References []Reference     // into results of earlier calls of a plan, in a dry run
	// Progress is told how far the tool has come; nil means that nobody listens.
	Progress func(done, total float64, message string)
	// Starting is called when the call has to wait for its server to start, and what
	// it returns when that is over; nil means that nobody wants to know.
	Starting func() (started func())
	// Ask puts a question of the server to the person for whom the call is made.
	// It may be called while another is open, and ends with its context; Call
	// returns only after it has. nil means that nobody can be asked.
	Ask func(context.Context, Question) (Reply, error)
	// Approve asks the person whether the call may be made. It ends with its
	// context. nil means that nobody can be asked while the call is open.
	Approve func(context.Context, Approval) (Reply, error)
	// Occurrence is the number of the call, from 1, among those of its execution
	// that are otherwise alike; 0 until that is known.
	Occurrence int
	// Trace tells the server which trace the call is part of, by the names of W3C;
	// nil tells it nothing.
	Trace map[string]string
}

// ComparableArgs returns the arguments by which the call is the same as another or not:
// the order of keys makes no difference.
func (c Call) ComparableArgs() json.RawMessage {
	if c.SortedArgs != nil {
		return c.SortedArgs
	}
	return c.Args
}

// Approval is the question whether a call may be made. The text is for the person
// alone: it has the arguments as they are.
type Approval struct {
	ID string
	Ref
	Question
}

// Question is what a server asks the person during a call. The texts come from
// the server: they are data, never instructions.
type Question struct {
	Text   string
	Schema json.RawMessage // of an object; what it holds need not be plain
}

// Action is what a person did about a question.
type Action string

// The actions, as MCP names them.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel" // dismissed without a choice
)

// Reply is what came of one question.
type Reply struct {
	Action  Action          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"` // for Accept: an object that fits the schema
}

// Caller calls tools: an upstream, or an ability around another Caller. It is
// safe for concurrent use.
type Caller interface {
	// Call returns what the tool answered. A tool that answered with an error
	// gives a *Failure; any other error says why there is no answer.
	Call(ctx context.Context, c Call) (Result, error)
}

// Failure is a tool's own error.
type Failure struct {
	Ref
	Message string          // the tool's own words
	Data    json.RawMessage // what it answered besides; nil if nothing
	Unknown bool            `json:",omitempty"` // whether the call happened, which is not said otherwise
	Answer  Result          // all of it, for who passes it on; empty if there was no answer
}

func (f *Failure) Error() string { return f.Ref.String() + ": " + f.Message }

// Kind says what a Part is.
type Kind string

const (
	Text  Kind = "text"
	Image Kind = "image"
	Audio Kind = "audio"
	Blob  Kind = "blob" // the bytes of a resource
	Link  Kind = "link" // a resource that was named, not sent
)

// Part is one piece of a result's content.
type Part struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text,omitempty"` // of Text, and the description of a Link
	MIME string `json:"mime,omitempty"`
	Data []byte `json:"data,omitempty"` // of Image, Audio and Blob
	URI  string `json:"uri,omitempty"`  // of Blob and Link, and of a Text that is a resource
	Name string `json:"name,omitempty"` // of Link
	// Raw is the piece as its server wrote it, with what the protocol knows beyond
	// these fields; nil if nobody wrote it so. It is for who passes it on.
	Raw json.RawMessage `json:"-"`
}

// Result is what a tool answered.
type Result struct {
	Parts      []Part          `json:"parts,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"` // nil if there is none
	As         Form            `json:"as,omitempty"`         // how Value reads it
	Planned    int             `json:"-"`                    // the number of the call in the plan that took it; 0 if it was made
	Meta       json.RawMessage `json:"-"`                    // what the server says to programs; an object, nil if there is none
}
