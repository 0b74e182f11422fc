package execution

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
)

const (
	// maxAskBytes is the maximum size of a prompt with its data and schema.
	maxAskBytes = 1 << 20
)

// Model is a language model that code asks with ask_llm. It is safe for concurrent use.
type Model interface {
	// Ask returns the answer to a prompt. The Usage of the Completion is also set with an error.
	// Ask enforces the budget of an execution.
	Ask(ctx context.Context, p Prompt) (Completion, error)
}

// Prompt is a request of code to a Model. Its texts are redacted.
type Prompt struct {
	Text   string
	Data   json.RawMessage // nil means none
	Schema json.RawMessage // JSON schema of the answer; nil means that it is a text
	Spent  ModelUsage      // of the execution before
}

// Completion is the answer of a Model.
type Completion struct {
	Value json.RawMessage // a string, or a value that conforms to the schema
	Usage ModelUsage
}

// ModelUsage is the cost of answers of a Model.
type ModelUsage struct {
	Model    string // its name
	Asked    int    // prompts
	Requests int    // including repeated ones
	Input    int64  // tokens
	Output   int64
	Cost     float64 // in the currency of the configured prices; 0 without prices
}

func (u *ModelUsage) add(v ModelUsage) {
	u.Model = v.Model
	u.Asked++
	u.Requests += v.Requests
	u.Input += v.Input
	u.Output += v.Output
	u.Cost += v.Cost
}

type askLLMArgs struct {
	Prompt string          `json:"prompt"`
	Data   json.RawMessage `json:"data"`
	Schema json.RawMessage `json:"schema"`
}

// AsksModel reports whether code can ask a language model.
func (r *Runner) AsksModel() bool { return r.cfg.Model != nil }

// askLLM handles the ask_llm() call of the code. One prompt of an execution is answered at a time,
// so that the others know what is left of its budget.
func (h *host) askLLM(ctx context.Context, a askLLMArgs) (any, error) {
	switch size := len(a.Prompt) + len(a.Data) + len(a.Schema); {
	case h.r.cfg.Model == nil:
		return nil, fault.New(fault.Unavailable, "ask_llm is off: no language model is configured for code").
			WithHint("the operator can set tasks.model to openai, azure or anthropic")
	case h.dry != nil:
		return nil, fault.New(fault.Denied, "a dry run cannot ask a language model").WithHint("run the code without dry_run")
	case strings.TrimSpace(a.Prompt) == "":
		return nil, fault.New(fault.Invalid, "the prompt of ask_llm is empty")
	case size > maxAskBytes:
		return nil, fault.New(fault.Invalid, "ask_llm was given %d bytes; at most %d are allowed", size, maxAskBytes).WithHint("ask about parts of the data")
	}
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := h.home.Quotas.Check(ctx, quota.ModelTokens); err != nil {
		return nil, err
	}
	p := Prompt{Spent: h.asked}
	var err error
	if p.Text, err = h.textForModel(ctx, a.Prompt); err != nil {
		return nil, err
	}
	if p.Data, err = h.jsonForModel(ctx, a.Data); err != nil {
		return nil, err
	}
	if p.Schema, err = h.jsonForModel(ctx, a.Schema); err != nil {
		return nil, err
	}
	began := time.Now()
	answer, err := h.r.cfg.Model.Ask(ctx, p)
	h.recordAsk(answer.Usage, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	value, err := h.exit.Restorer().Variables(ctx, wrapped(answer.Value))
	return value, err
}

// wrapped returns the value that the code receives.
func wrapped(value json.RawMessage) json.RawMessage {
	return append(append([]byte(`{"value":`), value...), '}')
}

// textForModel redacts a text. In mode strict, it has tokens of the interpreter, which the model gets
// as those of the vault.
func (h *host) textForModel(ctx context.Context, text string) (string, error) {
	text, err := h.exit.Tokens().Promote(ctx, text)
	if err != nil {
		return "", err
	}
	return h.exit.Tokenize(ctx, "", text)
}

func (h *host) jsonForModel(ctx context.Context, value json.RawMessage) (json.RawMessage, error) {
	if len(value) == 0 || string(value) == "null" {
		return nil, nil
	}
	promoted, err := h.exit.Tokens().Promote(ctx, string(value))
	if err != nil {
		return nil, err
	}
	return h.exit.RedactJSON(ctx, json.RawMessage(promoted))
}

// recordAsk counts what a prompt has cost, and adds it to the audit log.
func (h *host) recordAsk(u ModelUsage, took time.Duration, err error) {
	h.asked.add(u)
	h.home.Quotas.AddModel(quota.ModelUse{Requests: int64(u.Requests), Input: u.Input, Output: u.Output, Cost: u.Cost})
	if h.r.cfg.Audit == nil || h.run.internal {
		return
	}
	outcome := "completed"
	if err != nil {
		outcome = "failed"
	}
	line := audit.Line{Kind: audit.ModelCall, Tenant: h.home.ID(), Execution: h.run.id, Destination: u.Model, Outcome: outcome, Count: u.Input + u.Output, Duration: took}
	if h.step != nil {
		line.Session = h.req.SessionID
	}
	h.r.cfg.Audit(line)
}
