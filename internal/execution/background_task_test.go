package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// runTask runs the task that is due with a solver, and returns its execution.
func runTask(t *testing.T, s setup, h *home.Home, solve background.Solve) string {
	t.Helper()
	e, err := h.Runs.Claim(t.Context())
	if err != nil || e == nil {
		t.Fatal(e, err)
	}
	if err := s.runClaimed(t.Context(), h, e, background.Writers{Solve: solve}); err != nil {
		t.Fatal(err)
	}
	return e.Execution
}

func dispatchTask(t *testing.T, s setup, h *home.Home, o journal.OnRestart) string {
	t.Helper()
	id, err := s.scheduler().Dispatch(t.Context(), h, execution.StoredRequest{Task: "Find it"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTaskReportsProgressBetweenPrograms(t *testing.T) {
	t.Parallel()
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatchTask(t, s, h, journal.ResumeOnRestart)
	runTask(t, s, h, func(ctx context.Context, h *home.Home, task background.Task) (*reply.Result, error) {
		if task.Description != "Find it" {
			t.Errorf("the task is %q", task.Description)
		}
		for _, message := range []string{"selecting tools", "writing the program: 10 bytes"} {
			task.Progress(message)
			var now live.State
			for ; now.Progress == nil || now.Progress.Message != message; time.Sleep(10 * time.Millisecond) {
				e, _ := entry(t, h, id)
				if e.Live != nil {
					if err := json.Unmarshal(e.Live, &now); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if r, err := task.Run(ctx, execution.Request{Code: "raise Error wrong"}); err != nil || r.Success() {
			t.Errorf("%+v %v", r, err)
		}
		if e, _ := entry(t, h, id); e.State != journal.Running {
			t.Errorf("a failed program ended the task: %+v", e)
		}
		r, err := task.Run(ctx, execution.Request{Code: callFind + "\nresult 1\n# servers"})
		return &r, err
	})
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != "1" || l.called.Load() != 1 {
		t.Errorf("%+v %+v", e, r)
	}
}

// The record of a program that crashed is not replayed as the next program.
func TestNextProgramOfTaskRunsAfterCrash(t *testing.T) {
	t.Parallel()
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatchTask(t, s, h, journal.ResumeOnRestart)
	runTask(t, s, h, func(ctx context.Context, h *home.Home, task background.Task) (*reply.Result, error) {
		if r, err := task.Run(ctx, execution.Request{Code: callFind + "\n# servers\ncrash"}); err != nil || r.ErrorType != "crashed" {
			t.Errorf("%+v %v", r, err)
		}
		r, err := task.Run(ctx, execution.Request{Code: "result 2\n# servers"})
		return &r, err
	})
	if e, r := entry(t, h, id); e.Outcome != journal.Succeeded || string(r.Value) != "2" {
		t.Errorf("%+v %+v", e, r)
	}
}

func TestCancelledTaskRunsNoProgram(t *testing.T) {
	t.Parallel()
	l := newRestarts(t)
	s, h := l.restart(t, nil)
	id := dispatchTask(t, s, h, journal.ResumeOnRestart)
	runTask(t, s, h, func(ctx context.Context, h *home.Home, task background.Task) (*reply.Result, error) {
		if err := s.Cancel(t.Context(), h, id); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done() // while the program is written
		r, err := task.Run(ctx, execution.Request{Code: callFind + "\n# servers"})
		return &r, err
	})
	if e, r := entry(t, h, id); e.Outcome != journal.Cancelled || !strings.Contains(r.Error, "it was cancelled") || l.called.Load() != 0 {
		t.Errorf("%+v %+v after %d calls", e, r, l.called.Load())
	}
}

// A task whose daemon is killed while a program runs continues with that program; one killed before
// is solved again; with the option report both are interrupted.
func TestTaskAfterKill(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		for _, option := range []journal.OnRestart{journal.ResumeOnRestart, journal.ReportOnRestart} {
			l := newRestarts(t)
			s, h := l.restart(t, nil)
			id := dispatchTask(t, s, h, option)
			if e, err := h.Runs.Claim(t.Context()); err != nil || e == nil {
				t.Fatal(e, err)
			}
			if written {
				text, err := json.Marshal(execution.StoredRequest{Request: execution.Request{Code: callFind + "\nresult 1\n# servers",
					Background: true}, Task: "Find it"})
				if err == nil {
					err = h.Runs.SetRequest(t.Context(), id, text)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			l.kill(t)
			s, h = l.restart(t, nil)
			solved := false
			runTask(t, s, h, func(ctx context.Context, _ *home.Home, task background.Task) (*reply.Result, error) {
				solved = true
				r, err := task.Run(ctx, execution.Request{Code: "result 2"})
				return &r, err
			})
			e, r := entry(t, h, id)
			switch {
			case option == journal.ReportOnRestart:
				if e.Outcome != journal.Interrupted || solved || l.called.Load() != 0 {
					t.Errorf("written %t: %+v, solved %t", written, e, solved)
				}
			case e.Outcome != journal.Succeeded || solved == written || string(r.Value) != map[bool]string{true: "1", false: "2"}[written]:
				t.Errorf("written %t: %+v %+v, solved %t", written, e, r, solved)
			}
		}
	}
}
