package model

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/askllm"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

//go:embed prompts/ask.md
var askPrompt string

//go:embed prompts/ask_json.md
var askJSONPrompt string

// DefaultAskRequests is the default of Config.AskRequests.
const DefaultAskRequests = 20

// Asker answers prompts of code. It implements askllm.Client.
type Asker struct {
	g        *Generator
	requests int
}

// NewAsker returns an Asker for a model at an endpoint. It sends no request.
func NewAsker(cfg Config) (*Asker, error) {
	a := &Asker{requests: int(cfg.AskRequests)}
	if a.requests == 0 {
		a.requests = DefaultAskRequests
	}
	cfg.Budget = cfg.AskTokens
	g, err := New(cfg)
	a.g = g
	return a, err
}

// Ask implements askllm.Client. An answer that does not conform to the schema is repaired once.
func (a *Asker) Ask(ctx context.Context, p askllm.Prompt) (askllm.Completion, error) {
	used := task.Usage{Model: a.g.cfg.Name}
	c := askllm.Completion{Usage: askllm.Usage{Model: a.g.cfg.Provider + "/" + a.g.cfg.Name}}
	if p.Spent.Asked >= a.requests {
		return c, fault.New(fault.Exhausted, "the code has called ask_llm %d times, which is the maximum of an execution", p.Spent.Asked).
			WithHint("ask about more data at once; the operator can increase tasks.ask_requests").WithQuota("tasks.ask_requests")
	}
	value, err := a.ask(ctx, p, &used)
	c.Value = value
	c.Usage.Requests, c.Usage.Input, c.Usage.Output, c.Usage.Cost = used.Requests, used.InputTokens, used.OutputTokens, used.Cost
	return c, err
}

func (a *Asker) ask(ctx context.Context, p askllm.Prompt, used *task.Usage) (json.RawMessage, error) {
	q := question{system: askPrompt, prompt: p.Text}
	if p.Data != nil {
		q.prompt += "\n\nData:\n" + fenced(string(p.Data))
	}
	spent := task.Usage{InputTokens: p.Spent.Input, OutputTokens: p.Spent.Output, Cost: p.Spent.Cost}
	if p.Schema == nil {
		answer, err := a.once(ctx, q, spent, used)
		if err != nil {
			return nil, err
		}
		return json.Marshal(withoutThoughts(answer))
	}
	of, err := compile(p.Schema)
	if err != nil {
		return nil, err
	}
	q.system, q.prompt = askJSONPrompt, q.prompt+"\n\nJSON schema of the answer:\n"+fenced(string(p.Schema))
	first := q.prompt
	for repair := range 2 {
		answer, err := a.once(ctx, q, spent, used)
		if err != nil {
			return nil, err
		}
		value, wrong := conforming(of, answer)
		if wrong == nil {
			return value, nil
		}
		if repair == 0 {
			q.prompt = first + "\n\nAn earlier answer was rejected:\n" + fenced(shorten(wrong.Error(),
				maxFailedError)) + "\nAnswer with a correct JSON value."
		}
	}
	return nil, fault.New(fault.Unavailable, "the model returned no value that conforms to json_schema, after one repair").
		WithHint("simplify the schema, or ask for a text")
}

// once returns the text of one complete answer.
func (a *Asker) once(ctx context.Context, q question, spent task.Usage, used *task.Usage) (string, error) {
	answer, err := a.g.repeat(ctx, q, spent, used, func(string) {})
	switch {
	case fault.KindOf(err) == fault.Exhausted:
		name := fault.Quota(err)
		if name == budgetTokens {
			name = "tasks.ask_tokens"
		}
		return "", fault.Wrap(fault.Exhausted, err, "ask_llm: %s", fault.Message(err)).
			WithHint("ask about less data; the operator can increase %s", cmp.Or(name, "tasks.ask_tokens or tasks.budget_cost")).
			WithQuota(name)
	case err != nil:
		return "", err
	case answer.refused:
		return "", fault.New(fault.Unavailable, "the model declined to answer the prompt of ask_llm")
	case answer.truncated:
		return "", fault.New(fault.Unavailable, "the answer to ask_llm was truncated at the maximum number of tokens").
			WithHint("ask for a shorter answer")
	}
	return answer.text, nil
}

// Probe sends one small request and returns an error if the model does not answer.
func (a *Asker) Probe(ctx context.Context) error {
	_, err := a.g.once(ctx, question{system: "Answer with one word.", prompt: "Answer: ok", max: MinAnswer}, func(string) {})
	return plain(err)
}

// compile compiles a schema without references to other documents.
func compile(raw json.RawMessage) (*schema.Schema, error) {
	s, err := schema.CompileStrict(raw)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "json_schema is not a valid JSON schema").
			WithHint("it must be a schema such as {\"type\": \"object\", \"properties\": {…}}, without references to other documents")
	}
	return s, nil
}

// conforming returns the JSON value of an answer, or why it does not conform to the schema.
func conforming(of *schema.Schema, answer string) (json.RawMessage, error) {
	answer = strings.TrimSpace(withoutThoughts(answer))
	if blocks, closed := split(answer); closed && len(blocks) == 1 {
		answer = strings.TrimSpace(blocks[0].text)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
	if err != nil {
		return nil, errors.New("the answer is not one JSON value")
	}
	if err := of.Validate(value); err != nil {
		return nil, err
	}
	return json.RawMessage(answer), nil
}
