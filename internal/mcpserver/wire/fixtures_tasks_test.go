package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// fixtureTasks are the tasks of the fixtures, in memory.
type fixtureTasks struct {
	mu  sync.Mutex
	all map[string]*fixtureTask
}

type fixtureTask struct {
	Task
	cancel  context.CancelFunc
	replies chan map[string]Reply
}

func (f *fixtureTasks) tasks() *Tasks {
	return &Tasks{
		Get: func(_ context.Context, _, id string, _ bool) (Task, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if t := f.all[id]; t != nil {
				return t.Task, nil
			}
			return Task{}, fault.New(fault.NotFound, "there is no task %.60q", id)
		},
		Update: func(_ context.Context, _, id string, replies map[string]Reply) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			t := f.all[id]
			t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { _, ok := replies[q.ID]; return ok })
			if len(t.Questions) == 0 && t.Status == TaskInput {
				t.Status = TaskWorking
				t.replies <- replies
			}
			return nil
		},
		Cancel: func(_ context.Context, _, id string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			t := f.all[id]
			if t == nil {
				return fault.New(fault.NotFound, "there is no task %.60q", id)
			}
			if t.Status == TaskWorking || t.Status == TaskInput {
				t.Status = TaskCancelled
				t.cancel()
			}
			return nil
		},
	}
}

// start answers a call with a task that does run.
func (f *fixtureTasks) start(c Call, questions []Question, run func(ctx context.Context, replies map[string]Reply) (redact.Message,
	error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	t := &fixtureTask{Task: Task{
		ID:        fmt.Sprintf("task-%d", len(f.all)),
		Status:    TaskWorking,
		Created:   now,
		Changed:   now,
		Keep:      time.Hour,
		Questions: questions,
	}, cancel: cancel, replies: make(chan map[string]Reply, 1)}
	if len(questions) > 0 {
		t.Status = TaskInput
	}
	f.all[t.ID] = t
	c.Task(t.Task)
	go func() {
		var replies map[string]Reply
		if len(questions) > 0 {
			select {
			case replies = <-t.replies:
			case <-ctx.Done():
			}
		}
		m, err := run(ctx, replies)
		f.mu.Lock()
		defer f.mu.Unlock()
		if t.Changed = time.Now(); ctx.Err() != nil {
			return
		}
		if t.Status = TaskCompleted; err != nil {
			t.Status, t.Failure = TaskFailed, "it panicked"
			return
		}
		res, _ := gate.Redact(context.Background(), m)
		t.Result = &res
	}()
}

// tools returns the fixtures of the extension.
func (f *fixtureTasks) tools() []Tool {
	of := func(name string, handle Handler) Tool {
		return Tool{Name: name, Description: fixture, Schema: json.RawMessage(schema), Handle: handle}
	}
	computes := func(ctx context.Context, c Call) (redact.Redacted, error) {
		var args struct{ Seconds float64 }
		_ = json.Unmarshal(c.Arguments, &args)
		run := func(ctx context.Context, _ map[string]Reply) (redact.Message, error) {
			select {
			case <-time.After(time.Duration(args.Seconds * float64(time.Second))):
			case <-ctx.Done():
			}
			return redact.Message{Body: "computed"}, nil
		}
		if c.Task == nil || args.Seconds == 0 {
			m, _ := run(ctx, nil)
			return gate.Redact(ctx, m)
		}
		f.start(c, nil, run)
		return gate.Redact(ctx, "")
	}
	fails := of("failing_job", func(ctx context.Context, c Call) (redact.Redacted, error) {
		f.start(c, nil, func(context.Context, map[string]Reply) (redact.Message, error) {
			return redact.Message{Body: "it went wrong", Failed: true}, nil
		})
		return gate.Redact(ctx, "")
	})
	fails.NeedsTask = true
	panics := func(ctx context.Context, c Call) (redact.Redacted, error) {
		f.start(c, nil, func(context.Context, map[string]Reply) (redact.Message, error) {
			return redact.Message{}, fmt.Errorf("panic")
		})
		return gate.Redact(ctx, "")
	}
	asking := func(ids ...string) Handler {
		return func(ctx context.Context, c Call) (redact.Redacted, error) {
			var questions []Question
			for _, id := range ids {
				text, _ := gate.Redact(ctx, "Please tell: "+id)
				questions = append(questions, Question{ID: id, Text: text, Schema: json.RawMessage(nameForm)})
			}
			f.start(c, questions, func(_ context.Context, replies map[string]Reply) (redact.Message, error) {
				return redact.Message{Body: fmt.Sprint(slices.Sorted(maps.Keys(replies)))}, nil
			})
			return gate.Redact(ctx, "")
		}
	}
	composed := of("test_tool_with_task", func(ctx context.Context, c Call) (redact.Redacted, error) {
		if c.Replies["user_name"].Action != "accept" {
			text, _ := gate.Redact(ctx, "Please tell: user_name")
			return redact.Redacted{}, c.Require([]Question{{ID: "user_name", Text: text, Schema: json.RawMessage(nameForm)}}, "asked")
		}
		f.start(c, nil, func(context.Context, map[string]Reply) (redact.Message, error) {
			return redact.Message{Body: string(c.Replies["user_name"].Content)}, nil
		})
		return gate.Redact(ctx, "")
	})
	composed.NeedsTask = true
	return []Tool{
		of("greet", func(ctx context.Context, c Call) (redact.Redacted, error) {
			var args struct{ Name string }
			_ = json.Unmarshal(c.Arguments, &args)
			return gate.Redact(ctx, "Hello, "+args.Name+"!")
		}),
		of("slow_compute", computes), fails, of("protocol_error_job", panics),
		of("confirm_delete", asking("confirm")), of("multi_input", asking("first", "second")), composed,
	}
}
