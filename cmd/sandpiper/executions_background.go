package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

func executionsRunCommand(env *cli.Env) *cobra.Command {
	var o execOptions
	var background bool
	restart, description := string(journal.ResumeOnRestart), ""
	c := &cobra.Command{
		Use: "run [FILE|-] [-c CODE]", Short: "Run Python in a daemon, in the background",
		Long: `Run hands code, or a task in words, to a running daemon (sandpiper serve) with the same
data directory. The execution survives this command and restarts of the daemon. Without
--background the command waits like executions watch; ending it does not end the
execution.`,
		Example: `  sandpiper executions run --background -c 'sleep_until("2026-12-31T09:00:00Z"); result = 1'
  sandpiper executions watch exec_e25rjubtohqyskjqfnsornzl3p`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source.Inline = cmd.Flags().Changed("code")
			if len(args) > 0 {
				o.source.File = args[0]
			}
			return runExecutionsRun(cmd.Context(), env, o, description, journal.OnRestart(restart), background)
		},
	}
	f := c.Flags()
	f.BoolVar(&background, "background", false, "print the id and return at once")
	f.StringVarP(&o.source.Text, "code", "c", "", "run `CODE`")
	f.StringVar(&description, "task", "", "solve the task described by `TEXT` instead of running code")
	cli.EnumFlag(f, &restart, "on-restart", restart, "what to do if the daemon ends: `resume` or report", string(journal.ResumeOnRestart),
		string(journal.ReportOnRestart))
	cli.DurationFlag(f, &o.timeout, "timeout", 0, "stop the code after this running time (default 1h)")
	f.IntVar(&o.memory, "memory", 0, "memory in `MB` that the code may use (default 500)")
	f.StringVar(&o.vars, "context", "", "`JSON` object whose keys become variables")
	return c
}

func runExecutionsRun(ctx context.Context, env *cli.Env, o execOptions, description string, restart journal.OnRestart,
	background bool) error {
	b := execution.StoredRequest{Task: description}
	if description == "" || o.source.Inline || o.source.File != "" {
		req, err := newRequest(env, o)
		if err != nil {
			return err
		}
		b.Request = req
	} else {
		b.Request.Timeout, b.Request.MemoryMB = o.timeout, o.memory
	}
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		id, err := d.Background.Dispatch(ctx, h, b, restart)
		if err != nil {
			return err
		}
		if !background {
			return watch(ctx, env, d, h, id)
		}
		cli.HintDaemon(env, d)
		if env.JSON {
			return env.WriteJSON(map[string]any{"execution_id": id, "state": journal.Queued})
		}
		env.Printf("%s\n", id)
		return nil
	})
}

func executionsWatchCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Show the progress and output of a background execution until it ends",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithDaemonHome(cmd.Context(), env, func(d *daemon.Daemon, h *home.Home) error {
				return watch(cmd.Context(), env, d, h, args[0])
			})
		},
	}
}

// watchPoll is the time between two looks at a background execution.
const watchPoll = 200 * time.Millisecond

func watch(ctx context.Context, env *cli.Env, d *daemon.Daemon, h *home.Home, id string) error {
	var last mcpserver.Background
	running := cli.StartRunning(env)
	defer running.Pause()
	for {
		b, err := d.DescribeBackground(ctx, h, id)
		if err != nil {
			return err
		}
		if b.Ended {
			running.Pause()
			if b.Reply != nil {
				if !env.JSON {
					printLines(env, newLines(last.Output, b.Reply.Output))
				}
				return result.Print(ctx, env, *b.Reply)
			}
			if env.JSON {
				return env.WriteJSON(b)
			}
			env.Printf("%s\n", b.State)
			return nil
		}
		running.State.Store(&b.State)
		if last.State == "" && !cli.HintDaemon(env, d) {
			env.Note("Waiting for a daemon to run " + id + "; Ctrl-C ends only this command, and `sandpiper executions watch " + id +
				"` shows it later")
		}
		if !env.JSON {
			showChange(env, last, b, running.Show)
		}
		last = b
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchPoll):
		}
	}
}

// showChange prints what is new about a background execution.
func showChange(env *cli.Env, last, b mcpserver.Background, show func(live.Progress)) {
	if b.State != last.State || !b.Due.Equal(last.Due) {
		env.Note(stateText(b))
	}
	if b.Progress != nil && show != nil && (last.Progress == nil || *last.Progress != *b.Progress) {
		show(*b.Progress)
	}
	if !slices.Equal(last.Output, b.Output) {
		printLines(env, newLines(last.Output, b.Output))
	}
}

func printLines(env *cli.Env, lines []string) {
	for _, line := range lines {
		env.Printf("%s\n", cli.Visible(line))
	}
}

// newLines returns the items of now that follow those of then. Both are the end of the output.
func newLines(then, now []string) []string {
	for n := min(len(then), len(now)); n > 0; n-- {
		if slices.Equal(then[len(then)-n:], now[:n]) {
			return now[n:]
		}
	}
	return now
}

func stateText(b mcpserver.Background) string {
	text := b.State
	if !b.Due.IsZero() && b.State == string(journal.Waiting) {
		text += " until " + b.Due.Local().Format("2006-01-02 15:04:05")
	}
	switch {
	case len(b.Questions) > 0: // the hint is for a model
		text += ": " + questionText(b)
	case b.Error != "":
		text += ": " + cli.VisibleName(b.Error)
	case b.Hint != "":
		text += ": " + b.Hint
	}
	return text
}

// questionText describes the first question of an execution, and how to answer it.
func questionText(b mcpserver.Background) string {
	q := b.Questions[0]
	if q.Approval != "" {
		return cli.VisibleName(q.From) + " needs approval; `sandpiper approvals show " + q.Approval + "`, then approve or deny"
	}
	more := ""
	if n := len(b.Questions) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s%s; `sandpiper executions answer %s` answers", cli.VisibleName(cli.FirstLine(q.Text)), more, b.ID)
}

func executionsSignalCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "signal ID EVENT [JSON]", Short: "Send an event to code that waits for it with wait_for",
		Long: `Signal sends an event with a JSON value (default null) to an execution. If the code
does not wait for it yet, it is kept until the code does.`,
		Example: `  sandpiper executions signal exec_e25rjubtohqyskjqfnsornzl3p paid '{"amount": 5}'`,
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			var value json.RawMessage
			if len(args) == 3 {
				value = json.RawMessage(args[2])
			}
			return cli.WithDaemonHome(cmd.Context(), env, func(d *daemon.Daemon, h *home.Home) error {
				if err := d.Runner.Signal(cmd.Context(), h, args[0], args[1], value); err != nil {
					return err
				}
				cli.HintDaemon(env, d)
				env.PrintDone("Signal %s sent", args[1])
				return nil
			})
		},
	}
}

func executionsCancelCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a background execution and the tool call that it makes",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithDaemonHome(cmd.Context(), env, func(d *daemon.Daemon, h *home.Home) error {
				if err := d.Runner.Cancel(cmd.Context(), h, args[0]); err != nil {
					return err
				}
				env.PrintDone("Execution %s is being cancelled, unless it has ended", args[0])
				return nil
			})
		},
	}
}

func runExecutionsListBackground(ctx context.Context, env *cli.Env) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		all, err := d.ListBackground(ctx, h)
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "executions", all)
		}
		env.PrintEmpty(len(all), "there are no background executions; start one with `sandpiper executions run`")
		for _, b := range all {
			env.Printf("%s  %s  %s\n", b.ID, b.Changed.Local().Format("2006-01-02 15:04:05"), cli.Completed(env, stateText(b)))
		}
		return nil
	})
}
