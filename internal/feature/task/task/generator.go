package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ErrNoProgram is in the chain of an error of Generate if the answer contains no complete
// program. Another attempt may succeed.
var ErrNoProgram = errors.New("no program")

// Generator writes Python for a task. Its implementations are safe for concurrent use.
type Generator interface {
	// Generate returns a program, or an error that states the reason; its message is for
	// the person or model that gave the task. The Usage of the Answer is set in both cases.
	Generate(ctx context.Context, r Request) (Answer, error)
}

// Request asks for a program.
type Request struct {
	Task  string
	Tools []Described // those that the program may call
	// Failed is the attempt to repair; nil means the first one.
	Failed *Attempt
	// Spent is the cost of the earlier attempts at this task, which count towards its budget.
	Spent Usage
	// Progress receives text while it is generated; nil discards it. Text
	// of a request that is repeated is passed again.
	Progress func(part string)
}

// Described is a tool as a generator sees it.
type Described struct {
	Name        string          // SERVER.TOOL
	Description string          //
	Import      string          // from servers.github import list_issues
	Signature   string          // list_issues(repo: str, state: str = "open") -> list[dict]
	Input       json.RawMessage // JSON schema of the arguments
	Output      json.RawMessage // JSON schema of the result; nil if it is not known
}

// Attempt is a program that failed.
type Attempt struct {
	Code  string `json:"code,omitempty"` // "" if the generator returned none
	Error string `json:"error"`          // for the generator; the caller redacts it
}

// Answer is a generated program.
type Answer struct {
	Code  string
	Usage Usage
	// Search is set instead of Code if the tools do not suffice: a query for others.
	Search string
}

// Sample asks the model of the client that gave the task. The prompt may be redacted again.
type Sample func(ctx context.Context, p Prompt) (Sampled, error)

// Prompt is a request to the model of a client.
type Prompt struct {
	System, Text string
	MaxTokens    int    // of the answer
	Model        string // which model is preferred; "" means none
}

// Sampled is the answer of the model of a client.
type Sampled struct {
	Text      string
	Model     string // "" if the client did not name it
	Truncated bool   // at MaxTokens
}

// Usage is the cost of answers of a model.
type Usage struct {
	Model        string        `json:"model,omitempty"` // "" if there is none
	InputTokens  int64         `json:"input_tokens"`
	OutputTokens int64         `json:"output_tokens"`
	Requests     int           `json:"requests"`            // including retries
	Estimated    bool          `json:"estimated,omitempty"` // some tokens were not reported, and counted here
	Cost         float64       `json:"cost,omitempty"`      // in the currency of the configured prices
	Duration     time.Duration `json:"-"`
}

// Add adds the cost of another answer.
func (u *Usage) Add(v Usage) {
	if v.Model != "" {
		u.Model = v.Model
	}
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.Requests += v.Requests
	u.Estimated = u.Estimated || v.Estimated
	u.Cost += v.Cost
	u.Duration += v.Duration
}
