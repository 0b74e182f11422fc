package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func resumeCommand(env *cli.Env) *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "resume ID [FILE|-] [-c CODE]",
		Short: "Rebuild the variables of a session and run code with them",
		Long: `Resume replays the code of a session's log in order in a new interpreter, and then
runs the code from a file, from standard input or from -c as the session's next
task. Without such code it only checks whether the session can be rebuilt.

No call of a tool is repeated and no question is asked again: their answers are on
record. Files are written again. A call that is not on record stops the command,
unless the whole task has no record and --repeat-calls is given. A task whose result
differs from the log is reported. Tasks that ended their interpreter, for example by
a time limit, are skipped.`,
		Example: `  sandpiper session resume report
  sandpiper session resume report -c 'sorted(totals)[-3:]'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.session, o.source.Inline = args[0], cmd.Flags().Changed("code")
			if len(args) > 1 {
				o.source.File = args[1]
			}
			return runResume(cmd.Context(), env, o)
		},
	}
	c.Flags().StringVarP(&o.source.Text, "code", "c", "", "run `CODE` afterwards")
	cli.DurationFlag(c.Flags(), &o.timeout, "timeout", 0, "stop that code after this time (default 30s)")
	c.Flags().BoolVar(&o.repeatCalls, "repeat-calls", false, "make the calls of tasks without a record again")
	c.Flags().IntVar(&o.memory, "memory", 0, "memory in `MB` that the interpreter may use (default 500)")
	return c
}

// rebuilt is the result of session resume.
type rebuilt struct {
	*sessions.Rebuilt
	Answer any `json:"answer,omitempty"` // of the code run after the replay
}

func runResume(ctx context.Context, env *cli.Env, o execOptions) error {
	more := o.source.Inline || o.source.File != ""
	var req execution.Request
	if more {
		var err error
		if req, err = newRequest(env, o); err != nil {
			return err
		}
	}
	shown := false // the output of replayed tasks is not printed again
	show := result.Printer(env)
	output := func(item []byte) {
		if shown && show != nil {
			show(item)
		}
	}
	return cli.WithWarmHome(ctx, env, output, func(d *daemon.Daemon, home *home.Home) error {
		r, err := execution.RebuildSession(ctx, d.Runner, home, execution.Rebuild{
			Session: o.session, MemoryMB: o.memory, RepeatCalls: o.repeatCalls,
			Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
				return result.Execute(ctx, env, d, home, req)
			},
		})
		if err != nil {
			return err
		}
		if !more {
			return finishReplay(env, r)
		}
		if !env.JSON {
			warnReplay(env, r)
		}
		shown = true
		done, err := result.Execute(ctx, env, d, home, req)
		if err != nil {
			return err
		}
		if env.JSON {
			if err := env.WriteJSON(rebuilt{r, result.JSON{Result: done}}); err != nil {
				return err
			}
			return result.ExitCode(done)
		}
		return result.Print(ctx, env, done)
	})
}

func finishReplay(env *cli.Env, r *sessions.Rebuilt) error {
	if env.JSON {
		return env.WriteJSON(r)
	}
	warnReplay(env, r)
	env.Printf("Session %s: %s replayed, %d with a different result\n", cli.VisibleName(r.ID), cli.Count(r.Tasks, "task"), len(r.Differs))
	return nil
}

func warnReplay(env *cli.Env, r *sessions.Rebuilt) {
	for _, n := range r.Notes {
		env.Warn(n)
	}
	for _, d := range r.Differs {
		env.Warn(fmt.Sprintf("%s has a different result: %.200s in the log, now %.200s", d.Task, d.Was, d.Is))
	}
}
