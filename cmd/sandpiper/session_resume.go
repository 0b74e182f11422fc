package main

import (
	"context"
	"fmt"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

func (a *app) resumeCommand() *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "resume ID [FILE|-] [-c CODE]",
		Short: "Rebuild a session's variables, and run code with them",
		Long: `Resume runs the code of a session's log again, in order, in a fresh interpreter,
and then the code from a file, from standard input or from -c as the session's
next task. Without such code it only finds out whether the session can be rebuilt.

What the tasks do is done again: files they write are written again, and questions
are asked again. A task whose
result is not what the log says is reported by its name. Tasks that ended their
interpreter, by a time limit for instance, are left out.`,
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

// replayed is what came of running a session's log again.
type replayed struct {
	ID      string       `json:"session_id"`
	Tasks   int          `json:"tasks"`
	Differs []difference `json:"differs"`
	Notes   []string     `json:"notes"`
	Answer  any          `json:"answer,omitempty"` // of the code that came after
}

// difference is a task whose result is not what it was.
type difference struct {
	Task string `json:"task_id"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

func (r *replayed) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (a *app) runResume(ctx context.Context, o execOptions) error {
	more := o.inline || o.script != ""
	var req execution.Request
	if more {
		var err error
		if req, err = a.request(o); err != nil {
			return err
		}
	}
	shown := false // what replayed tasks print was shown when they ran
	show := a.watch()
	output := func(item []byte) {
		if shown && show != nil {
			show(item)
		}
	}
	return a.ready(ctx, output, func(d *daemon.Daemon, home *home.Home) error {
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
			r.Answer = answer{result.Answer(), result.Images}
			if err := a.writeJSON(r); err != nil {
				return err
			}
			return outcome(result)
		}
		return a.finish(ctx, result)
	})
}

// replay runs the steps of a session's log again.
func (a *app) replay(ctx context.Context, d *daemon.Daemon, home *home.Home, o execOptions) (*replayed, error) {
	steps, err := home.Sessions.Replay(ctx, o.session)
	if err != nil {
		return nil, err
	}
	r := &replayed{ID: o.session, Differs: []difference{}, Notes: []string{}}
	if len(steps) > 0 && steps[0].Number > 1 {
		r.note("tasks before %s are no longer in the log: what only they made is missing", steps[0].ID())
	}
	for _, s := range steps {
		if s.InterpreterLost {
			r.note("%s ended its interpreter and is left out (%.200s)", s.ID(), s.Result)
			continue
		}
		if s.VarsLost {
			r.note("%s had variables too large for the log: it runs without them", s.ID())
		}
		if err := a.again(ctx, d, home, o, s, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// again runs one step again and compares.
func (a *app) again(ctx context.Context, d *daemon.Daemon, home *home.Home, o execOptions, s session.Step, r *replayed) error {
	result, err := a.execute(ctx, d, home, execution.Request{
		Code: s.Code, Vars: s.Vars, SessionID: o.session, Replay: true,
		Timeout: d.Runner.Limits().MaxTimeout, MemoryMB: o.memory,
	})
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case result.Session.State == reply.SessionEnded:
		return fault.New(fault.Unavailable, "%s ended the interpreter when it ran again: %s", s.ID(), result.Error).
			WithHint("session %s cannot be rebuilt from its log alone", o.session)
	}
	r.Tasks++
	if is := result.LogText(); comparable(is) != comparable(s.Result) {
		r.Differs = append(r.Differs, difference{s.ID(), s.Result, is})
	}
	return nil
}

// executionIDs stand in the paths of results that were too large for an answer.
var executionIDs = regexp.MustCompile(`exec_[a-z0-9]{20,}`)

// comparable is a logged result without what differs each time.
func comparable(result string) string { return executionIDs.ReplaceAllString(result, "exec_") }

func (a *app) finishReplay(r *replayed) error {
	if a.json {
		return a.writeJSON(r)
	}
	a.warnReplay(r)
	a.printf("Session %s: %d tasks ran again, %d with another result\n", visibleName(r.ID), r.Tasks, len(r.Differs))
	return nil
}

func (a *app) warnReplay(r *replayed) {
	for _, n := range r.Notes {
		a.warn(n)
	}
	for _, d := range r.Differs {
		a.warn(fmt.Sprintf("%s has another result than in the log: it was %.200s, and is %.200s", d.Task, d.Was, d.Is))
	}
}
