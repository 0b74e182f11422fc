package main

import (
	"context"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

func (a *app) resumeCommand() *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "resume ID [FILE|-] [-c CODE]",
		Short: "Rebuild the variables of a session and run code with them",
		Long: `Resume replays the code of a session's log in order in a new interpreter, and then
runs the code from a file, from standard input or from -c as the session's next
task. Without such code it only checks whether the session can be rebuilt.

The side effects of the tasks are repeated: files are written again and questions
are asked again. A task whose result differs from the log is reported. Tasks that
ended their interpreter, for example by a time limit, are skipped.`,
		Example: `  sandpiper session resume report
  sandpiper session resume report -c 'sorted(totals)[-3:]'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.session, o.inline = args[0], cmd.Flags().Changed("code")
			if len(args) > 1 {
				o.script = args[1]
			}
			return a.runResume(cmd.Context(), o)
		},
	}
	c.Flags().StringVarP(&o.code, "code", "c", "", "run `CODE` afterwards")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "stop that code after this time (default 30s)")
	c.Flags().IntVar(&o.memory, "memory", 0, "memory in `MB` that the interpreter may use (default 500)")
	return c
}

// replayReport is the result of replaying a session's log.
type replayReport struct {
	ID      string       `json:"session_id"`
	Tasks   int          `json:"tasks"`
	Differs []divergence `json:"differs"`
	Notes   []string     `json:"notes"`
	Answer  any          `json:"answer,omitempty"` // of the code run after the replay
}

// divergence is a task whose result differs from the log.
type divergence struct {
	Task string `json:"task_id"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

func (r *replayReport) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (a *app) runResume(ctx context.Context, o execOptions) error {
	more := o.inline || o.script != ""
	var req execution.Request
	if more {
		var err error
		if req, err = a.newRequest(o); err != nil {
			return err
		}
	}
	shown := false // the output of replayed tasks is not printed again
	show := a.outputPrinter()
	output := func(item []byte) {
		if shown && show != nil {
			show(item)
		}
	}
	return a.withWarmHome(ctx, output, func(d *daemon.Daemon, home *home.Home) error {
		r, err := a.replay(ctx, d, home, o)
		if err != nil {
			return err
		}
		if !more {
			return a.finishReplay(r)
		}
		if !a.json {
			a.warnReplay(r)
		}
		shown = true
		result, err := a.execute(ctx, d, home, req)
		if err != nil {
			return err
		}
		if a.json {
			r.Answer = resultJSON{result.Answer(), result.Images}
			if err := a.writeJSON(r); err != nil {
				return err
			}
			return exitCodeOf(result)
		}
		return a.printResult(ctx, result)
	})
}

// replay replays the steps of a session's log.
func (a *app) replay(ctx context.Context, d *daemon.Daemon, home *home.Home, o execOptions) (*replayReport, error) {
	steps, err := home.Sessions.Replay(ctx, o.session)
	if err != nil {
		return nil, err
	}
	r := &replayReport{ID: o.session, Differs: []divergence{}, Notes: []string{}}
	if len(steps) > 0 && steps[0].Number > 1 {
		r.note("tasks before %s are no longer in the log: the variables that they set are missing", steps[0].ID())
	}
	for _, s := range steps {
		if s.InterpreterLost {
			r.note("%s ended its interpreter and is skipped (%.200s)", s.ID(), s.Result)
			continue
		}
		if s.VarsLost {
			r.note("%s had context variables that are too large for the log: it runs without them", s.ID())
		}
		if err := a.replayStep(ctx, d, home, o, s, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// replayStep replays one step and compares the result with the log.
func (a *app) replayStep(ctx context.Context, d *daemon.Daemon, home *home.Home, o execOptions, s session.Step, r *replayReport) error {
	result, err := a.execute(ctx, d, home, execution.Request{
		Code: s.Code, Vars: s.Vars, SessionID: o.session, Replay: true,
		Timeout: d.Runner.Limits(home.ID()).MaxTimeout, MemoryMB: o.memory,
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case result.Session.State == reply.SessionEnded:
		return fault.New(fault.Unavailable, "%s ended the interpreter when it was replayed: %s", s.ID(), result.Error).
			WithHint("session %s cannot be rebuilt from its log alone", o.session)
	}
	r.Tasks++
	if is := result.LogText(); normalizeResult(is) != normalizeResult(s.Result) {
		r.Differs = append(r.Differs, divergence{s.ID(), s.Result, is})
	}
	return nil
}

// executionIDs matches the ids in paths of results that were too large to return.
var executionIDs = regexp.MustCompile(`exec_[a-z0-9]{20,}`)

// normalizeResult removes execution ids, which differ each time, from a logged result.
func normalizeResult(result string) string { return executionIDs.ReplaceAllString(result, "exec_") }

func (a *app) finishReplay(r *replayReport) error {
	if a.json {
		return a.writeJSON(r)
	}
	a.warnReplay(r)
	a.printf("Session %s: %s replayed, %d with a different result\n", visibleName(r.ID), count(r.Tasks, "task"), len(r.Differs))
	return nil
}

func (a *app) warnReplay(r *replayReport) {
	for _, n := range r.Notes {
		a.warn(n)
	}
	for _, d := range r.Differs {
		a.warn(fmt.Sprintf("%s has a different result: %.200s in the log, now %.200s", d.Task, d.Was, d.Is))
	}
}
