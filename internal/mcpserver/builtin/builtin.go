// Package builtin defines the tools that the server offers itself, as values: a name, a description, the
// parameters, and the function that answers a call.
//
// The listed schema and the check of the arguments are made from the same parameters. A Tool acts for the
// tenant of its Call, whatever the arguments say. Answers are redacted by the server, not here.
package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Profile selects the listed tools. Every listed tool costs the model tokens on every
// turn.
type Profile string

const (
	Lean     Profile = "lean"     // executing code
	Standard Profile = "standard" // also files, skills, statistics
	Full     Profile = "full"     // everything
)

// Profiles are the profiles with code execution, smallest first.
var Profiles = [...]Profile{Lean, Standard, Full}

// Shows reports whether profile p lists a tool of profile t.
func (p Profile) Shows(t Profile) bool { return p.Rank() >= t.Rank() }

// Rank returns the place of p in Profiles, -1 if it is not one of them.
func (p Profile) Rank() int {
	for i, known := range Profiles {
		if p == known {
			return i
		}
	}
	return -1
}

// Tool is one tool of this server.
type Tool struct {
	Name        string
	Description string
	Profile     Profile // the smallest that lists it
	Params      []Param
	Schema      json.RawMessage // of the arguments; nil means that of Params
	Label       string          // in telemetry; "" means Name
	Hints       wire.Hints
	Scope       access.Scope // that a caller needs; "" means Execute
	MaxChars    int          // maximum characters of an answer; 0 means the default
	AlwaysLoad  bool         // see wire.Tool.AlwaysLoad
	SearchHint  string       // see wire.Tool.SearchHint
	Run         func(context.Context, Call) (redact.Message, error)
	// Start, instead of Run, starts an execution. The server shows its progress and questions, keeps it in
	// the background if it takes long, and continues it when the client has answered.
	Start   func(context.Context, Call) (*execution.Execution, error)
	OwnCode bool // Start runs code of the tool itself, of which the caller gets no traceback
	// Converse, instead of Run, may start executions and ask the model of the client until it has an answer.
	Converse func(context.Context, *Conversation) (redact.Message, error)
	Samples  bool // Converse may ask the model of the client
}

// Call is one call of a tool.
type Call struct {
	wire.Call
	Home       *home.Home
	Tool       *Tool
	Privacy    *redact.Rules // of its tenant when it began
	Session    *string       // session of the execution; "" without one
	ModelInput redact.ModelInput
	// Given answers the only question of a resumed execution; nil means no answer.
	Given    func([]question.Question) (question.Answer, error)
	Outcome  *string        // for telemetry
	Commands fault.Commands // in messages
	Note     *string        // for the model, about the arguments
}

// Conversation is a call during which a tool uses several abilities of the client. Some clients answer
// in another call: then Call is the last one.
type Conversation struct {
	Call
	// Follow shows the progress and questions of an execution until it ends. The result is nil if it was
	// suspended: then the message is the answer to the call.
	Follow func(context.Context, *execution.Execution) (*reply.Result, redact.Message, error)
	// Report shows what the tool does.
	Report func(ctx context.Context, message string)
}

// Gate returns the redaction for the call's tenant and session.
func (c Call) Gate() *redact.Gate {
	return c.Privacy.For(redact.Owner{Tenant: c.Home.ID(), Vault: c.Home.Vault, Session: *c.Session, ModelInput: c.ModelInput})
}

// ModelGate returns the redaction for texts to another model than the one that wrote the
// arguments: values in these are private to it.
func (c Call) ModelGate() *redact.Gate {
	return c.Privacy.For(redact.Owner{Tenant: c.Home.ID(), Vault: c.Home.Vault, Session: *c.Session})
}

// Values replaces tokens by their values in text for the workspace.
func (c Call) Values(ctx context.Context, texts ...*string) (err error) {
	for _, t := range texts {
		if *t, err = c.Gate().Restorer().Text(ctx, redact.ToFile, *t); err != nil {
			return err
		}
	}
	return nil
}

// Name replaces tokens in a file name.
func (c Call) Name(ctx context.Context, name *string) (err error) {
	*name, err = c.Gate().Restorer().Name(ctx, redact.ToFile, *name)
	return err
}

// Read checks the arguments and reads them into out.
func (c Call) Read(out any) (err error) {
	*c.Note, err = Decode(c.Tool.Name, c.Tool.Params, c.Arguments, out)
	return err
}

// Handle returns the Run of a tool whose arguments are the fields of A.
func Handle[A any](answer func(context.Context, Call, A) (redact.Message, error)) func(context.Context, Call) (redact.Message, error) {
	return func(ctx context.Context, c Call) (redact.Message, error) {
		var args A
		if err := c.Read(&args); err != nil {
			return redact.Message{}, err
		}
		return answer(ctx, c, args)
	}
}

// done is the answer of a tool without a result.
type done struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

// Did is the answer of a tool that did what the format says.
func Did(format string, args ...any) (redact.Message, error) {
	return redact.Message{Body: done{true, fmt.Sprintf(format, args...)}}, nil
}
