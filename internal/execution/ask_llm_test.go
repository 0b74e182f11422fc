package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/askllm"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// modelFunc is a askllm.Client.
type modelFunc func(ctx context.Context, p askllm.Prompt) (askllm.Completion, error)

func (f modelFunc) Ask(ctx context.Context, p askllm.Prompt) (askllm.Completion, error) {
	return f(ctx, p)
}

// askingOf returns the call of code that asks a model.
func askingOf(model askllm.Client) func() []hostcall.Source {
	methods := func(of hostcall.Scope) []hostcall.Method { return askllm.Methods(model, of) }
	return func() []hostcall.Source { return []hostcall.Source{{Methods: methods}} }
}

func TestEndOfExecutionCancelsPrompt(t *testing.T) {
	home := newHome(t, "a")
	asked, cancelled := make(chan struct{}), make(chan struct{})
	s := newSetup(t, execution.Config{HostCalls: askingOf(modelFunc(func(ctx context.Context, _ askllm.Prompt) (askllm.Completion, error) {
		close(asked)
		<-ctx.Done()
		close(cancelled)
		return askllm.Completion{}, context.Cause(ctx)
	}))}, fake.Config{}, admit.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x := s.start(t, ctx, home, execution.Request{Code: `call ask_llm {"prompt": "x"}`})
	<-asked
	cancel()
	select {
	case <-cancelled:
	case <-time.After(30 * time.Second):
		t.Fatal("the model is still asked")
	}
	if r := done(t, x); r.Success() {
		t.Errorf("%+v", r)
	}
}

// The budget is checked against the cost of all earlier prompts.
func TestPromptsAreAnsweredOneAtATime(t *testing.T) {
	home := newHome(t, "a")
	var spent []int64
	free := make(chan struct{}, 1)
	s := newSetup(t, execution.Config{HostCalls: askingOf(modelFunc(func(_ context.Context, p askllm.Prompt) (askllm.Completion, error) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		default:
			t.Error("two prompts at once")
		}
		spent = append(spent, p.Spent.Input)
		time.Sleep(time.Millisecond)
		return askllm.Completion{Value: json.RawMessage(`"yes"`), Usage: askllm.Usage{Input: 5}}, nil
	}))}, fake.Config{}, admit.Config{})
	if r := s.run(t, home, strings.Repeat(`spawn ask_llm {"prompt": "x"}`+"\n", 5)+`call ask_llm {"prompt": "x"}`); !r.Success() {
		t.Fatalf("%+v", r)
	}
	for n, tokens := range spent {
		if tokens != int64(5*n) {
			t.Errorf("prompt %d: %d tokens are spent", n, tokens)
		}
	}
	if len(spent) != 6 {
		t.Errorf("%d prompts", len(spent))
	}
}
