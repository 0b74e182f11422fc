// Package askllm serves the host call ask_llm, by which code asks a language model. The model gets
// redacted texts only, and the code its answer with the tokens restored.
package askllm

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// maxBytes is the maximum size of a prompt with its data and schema.
const maxBytes = 1 << 20

// Client asks a language model. It is safe for concurrent use.
type Client interface {
	// Ask returns the answer to a prompt. The Usage of the Completion is also set with an error.
	// Ask enforces the budget of an execution.
	Ask(ctx context.Context, p Prompt) (Completion, error)
}

// Prompt is a request of code to a model. Its texts are redacted.
type Prompt struct {
	Text   string
	Data   json.RawMessage // nil means none
	Schema json.RawMessage // JSON schema of the answer; nil means that it is a text
	Spent  Usage           // of the execution before
}

// Completion is the answer of a model.
type Completion struct {
	Value json.RawMessage // a string, or a value that conforms to the schema
	Usage Usage
}

// Usage is the cost of the answers of a model.
type Usage struct {
	Model    string // its name
	Asked    int    // prompts
	Requests int    // including repeated ones
	Input    int64  // tokens
	Output   int64
	Cost     float64 // in the currency of the configured prices; 0 without prices
}

func (u *Usage) add(v Usage) {
	u.Model = v.Model
	u.Asked++
	u.Requests += v.Requests
	u.Input += v.Input
	u.Output += v.Output
	u.Cost += v.Cost
}

type args struct {
	Prompt string          `json:"prompt"`
	Data   json.RawMessage `json:"data"`
	Schema json.RawMessage `json:"schema"`
}

// Methods returns the host call of an execution. Without a client, no model is configured.
func Methods(client Client, of hostcall.Scope) []hostcall.Method {
	h := &host{Scope: of, client: client, turn: make(chan struct{}, 1)}
	return []hostcall.Method{hostcall.New("ask_llm", hostcall.Durable|hostcall.Taped, h.ask)}
}

type host struct {
	hostcall.Scope
	client Client
	turn   chan struct{} // one element while a prompt is answered
	asked  Usage         // guarded by turn
}

// ask answers one prompt of an execution at a time, so that the others know what is left of its budget.
func (h *host) ask(ctx context.Context, a args) (any, error) {
	if err := h.check(a); err != nil {
		return nil, err
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := h.Home.Quotas.Check(ctx, quota.ModelTokens); err != nil {
		return nil, err
	}
	p, err := h.prompt(ctx, a)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	answer, err := h.client.Ask(ctx, p)
	h.record(answer.Usage, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	return h.Gate.Restorer().Variables(ctx, wrapped(answer.Value))
}

func (h *host) check(a args) error {
	switch size := len(a.Prompt) + len(a.Data) + len(a.Schema); {
	case h.client == nil:
		return fault.New(fault.Unavailable, "ask_llm is off: no language model is configured for code").
			WithHint("the operator can set tasks.model to openai, azure or anthropic")
	case h.DryRun:
		return fault.New(fault.Denied, "a dry run cannot ask a language model").WithHint("run the code without dry_run")
	case strings.TrimSpace(a.Prompt) == "":
		return fault.New(fault.Invalid, "the prompt of ask_llm is empty")
	case size > maxBytes:
		return fault.New(fault.Invalid, "ask_llm was given %d bytes; at most %d are allowed", size, maxBytes).
			WithHint("ask about parts of the data")
	}
	return nil
}

// prompt returns the redacted prompt. In mode strict, the texts have tokens of the interpreter, which the
// model gets as those of the vault.
func (h *host) prompt(ctx context.Context, a args) (p Prompt, err error) {
	p.Spent = h.asked
	if p.Text, err = h.Gate.Tokens().Promote(ctx, a.Prompt); err != nil {
		return p, err
	}
	if p.Text, err = h.Gate.Tokenize(ctx, "", p.Text); err != nil {
		return p, err
	}
	if p.Data, err = redactValue(ctx, h.Gate, a.Data); err != nil {
		return p, err
	}
	p.Schema, err = redactValue(ctx, h.Gate, a.Schema)
	return p, err
}

func redactValue(ctx context.Context, gate *redact.Gate, value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 || string(value) == "null" {
		return nil, nil
	}
	promoted, err := gate.Tokens().Promote(ctx, string(value))
	if err != nil {
		return nil, err
	}
	return gate.RedactJSON(ctx, json.RawMessage(promoted))
}

// wrapped returns the value that the code receives.
func wrapped(value json.RawMessage) json.RawMessage {
	return append(append([]byte(`{"value":`), value...), '}')
}

// record counts what a prompt has cost, and adds it to the audit log.
func (h *host) record(u Usage, took time.Duration, err error) {
	h.asked.add(u)
	h.Home.Quotas.AddModel(quota.ModelUse{Requests: int64(u.Requests), Input: u.Input, Output: u.Output, Cost: u.Cost})
	h.Audit(audit.ModelCall, func(line *audit.Line) {
		line.Destination, line.Outcome, line.Count, line.Duration = u.Model, "completed", u.Input+u.Output, took
		if err != nil {
			line.Outcome = "failed"
		}
	})
}
