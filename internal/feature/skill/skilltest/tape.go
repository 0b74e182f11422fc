package skilltest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// tape records the answers that the code of an execution receives from outside, with tokens in
// place of private values, or replays recorded ones. It serves one execution.
type tape struct {
	mu      sync.Mutex
	replay  bool
	answers []Answer // recorded, or those left to replay
	bytes   int
	err     error           // why the recording is incomplete, or the first call without a recorded answer
	result  json.RawMessage // of the code
}

// Call makes a call and records its answer, or returns the recorded one.
func (t *tape) Call(ctx context.Context, gate *redact.Gate, method string, args json.RawMessage, call func() (any, error)) (any, error) {
	redactedArgs, err := gate.RedactJSON(ctx, args)
	if err != nil {
		return nil, err
	}
	if t.replay {
		return t.next(method, canonical(args), canonical(redactedArgs))
	}
	value, err := call()
	if ctx.Err() != nil {
		return value, err
	}
	t.record(ctx, gate, method, canonical(redactedArgs), value, err)
	return value, err
}

func (t *tape) record(ctx context.Context, gate *redact.Gate, method string, args json.RawMessage, value any, failed error) {
	var answer journal.Answer
	a, err := journal.NewAnswer(value, failed)
	if large, ok := value.(tools.Answer); ok && large.File != nil {
		err = fault.New(fault.Invalid, "an answer is too large to be recorded").WithHint("call the skill with less data")
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(a)
	}
	if err == nil {
		text, err = gate.RedactJSON(ctx, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes += len(args) + len(text); t.bytes > maxBytes && err == nil {
		err = fault.New(fault.Exhausted, "the answers have more than %d bytes, which is the maximum of a test", maxBytes).
			WithHint("call the skill with less data")
	}
	if t.err == nil {
		t.err = err
	}
	if t.err == nil {
		t.answers = append(t.answers, Answer{Method: method, Args: args, Answer: answer})
	}
}

// next returns the first recorded answer to the call. In the arguments, values may be tokens.
func (t *tape) next(method string, args ...json.RawMessage) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.answers, func(a Answer) bool {
		return a.Method == method && slices.ContainsFunc(args, func(b json.RawMessage) bool { return bytes.Equal(a.Args, b) })
	})
	if i < 0 {
		err := fault.New(fault.NotFound, "the test has no recorded answer to %s(%.200s)", method, args[len(args)-1]).
			WithHint("record the test again, or run it with --live")
		if t.err == nil {
			t.err = err
		}
		return nil, err
	}
	a := t.answers[i]
	t.answers = slices.Delete(t.answers, i, i+1)
	return a.Value, a.Err()
}

// SetResult keeps the result for the type that a test expects.
func (t *tape) SetResult(result json.RawMessage) { t.result = result }

// canonical returns JSON with sorted keys and without spaces.
func canonical(raw json.RawMessage) json.RawMessage {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return b
}
