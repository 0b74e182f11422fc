package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

func (a *app) executionsRunCommand() *cobra.Command {
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
			o.inline = cmd.Flags().Changed("code")
			if len(args) > 0 {
				o.script = args[0]
			}
			return a.runExecutionsRun(cmd.Context(), o, description, journal.OnRestart(restart), background)
		},
	}
	f := c.Flags()
	f.BoolVar(&background, "background", false, "print the id and return at once")
	f.StringVarP(&o.code, "code", "c", "", "run `CODE`")
	f.StringVar(&description, "task", "", "solve the task described by `TEXT` instead of running code")
	enumFlag(f, &restart, "on-restart", restart, "what to do if the daemon ends: `resume` or report", string(journal.ResumeOnRestart), string(journal.ReportOnRestart))
	durationFlag(f, &o.timeout, "timeout", 0, "stop the code after this running time (default 1h)")
	f.IntVar(&o.memory, "memory", 0, "memory in `MB` that the code may use (default 500)")
	f.StringVar(&o.vars, "context", "", "`JSON` object whose keys become variables")
	return c
}

func (a *app) runExecutionsRun(ctx context.Context, o execOptions, description string, restart journal.OnRestart, background bool) error {
	b := execution.StoredRequest{Task: description}
	if description == "" || o.inline || o.script != "" {
		req, err := a.newRequest(o)
		if err != nil {
			return err
		}
		b.Request = req
	} else {
		b.Request.Timeout, b.Request.MemoryMB = o.timeout, o.memory
	}
	return a.withDaemonHome(ctx, func(d *daemon.Daemon, h *home.Home) error {
		id, err := d.Background.Dispatch(ctx, h, b, restart)
		if err != nil {
			return err
		}
		if !background {
			return a.watch(ctx, d, h, id)
		}
		a.hintDaemon(d)
		if a.json {
			return a.writeJSON(map[string]any{"execution_id": id, "state": journal.Queued})
		}
		a.printf("%s\n", id)
		return nil
	})
}

// noDaemon reports whether no daemon serves the data directory.
func noDaemon(d *daemon.Daemon) bool {
	all, err := d.Instances()
	return err == nil && len(all) == 0
}

// hintDaemon reports whether a daemon serves the data directory, and prints a warning if none does.
func (a *app) hintDaemon(d *daemon.Daemon) bool {
	if !noDaemon(d) {
		return true
	}
	a.warn("no daemon is running, so that nothing runs in the background")
	a.hint("start `sandpiper serve --http 127.0.0.1:8765` in another terminal, or an MCP client that starts Sandpiper")
	return false
}

func (a *app) executionsWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Show the progress and output of a background execution until it ends",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withDaemonHome(cmd.Context(), func(d *daemon.Daemon, h *home.Home) error {
				return a.watch(cmd.Context(), d, h, args[0])
			})
		},
	}
}

// watchPoll is the time between two looks at a background execution.
const watchPoll = 200 * time.Millisecond

func (a *app) watch(ctx context.Context, d *daemon.Daemon, h *home.Home, id string) error {
	var last mcpserver.Background
	running := startRunning(a)
	defer running.pause()
	for {
		b, err := d.DescribeBackground(ctx, h, id)
		if err != nil {
			return err
		}
		if b.Ended {
			running.pause()
			if b.Reply != nil {
				if !a.json {
					a.printLines(newLines(last.Output, b.Reply.Output))
				}
				return a.printResult(ctx, *b.Reply)
			}
			if a.json {
				return a.writeJSON(b)
			}
			a.printf("%s\n", b.State)
			return nil
		}
		running.state.Store(&b.State)
		if last.State == "" && !a.hintDaemon(d) {
			a.note("Waiting for a daemon to run " + id + "; Ctrl-C ends only this command, and `sandpiper executions watch " + id + "` shows it later")
		}
		if !a.json {
			a.showChange(last, b, running.show)
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
func (a *app) showChange(last, b mcpserver.Background, show func(live.Progress)) {
	if b.State != last.State || !b.Due.Equal(last.Due) {
		a.note(stateText(b))
	}
	if b.Progress != nil && show != nil && (last.Progress == nil || *last.Progress != *b.Progress) {
		show(*b.Progress)
	}
	if !slices.Equal(last.Output, b.Output) {
		a.printLines(newLines(last.Output, b.Output))
	}
}

func (a *app) printLines(lines []string) {
	for _, line := range lines {
		a.printf("%s\n", visible(line))
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
		text += ": " + visibleName(b.Error)
	case b.Hint != "":
		text += ": " + b.Hint
	}
	return text
}

// questionText describes the first question of an execution, and how to answer it.
func questionText(b mcpserver.Background) string {
	q := b.Questions[0]
	if q.Approval != "" {
		return visibleName(q.From) + " needs approval; `sandpiper approvals show " + q.Approval + "`, then approve or deny"
	}
	more := ""
	if n := len(b.Questions) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s%s; `sandpiper executions answer %s` answers", visibleName(firstLineOf(q.Text)), more, b.ID)
}

func (a *app) executionsSignalCommand() *cobra.Command {
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
			return a.withDaemonHome(cmd.Context(), func(d *daemon.Daemon, h *home.Home) error {
				if err := d.Runner.Signal(cmd.Context(), h, args[0], args[1], value); err != nil {
					return err
				}
				a.hintDaemon(d)
				a.printDone("Signal %s sent", args[1])
				return nil
			})
		},
	}
}

func (a *app) executionsCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a background execution and the tool call that it makes",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withDaemonHome(cmd.Context(), func(d *daemon.Daemon, h *home.Home) error {
				if err := d.Runner.Cancel(cmd.Context(), h, args[0]); err != nil {
					return err
				}
				a.printDone("Execution %s is being cancelled, unless it has ended", args[0])
				return nil
			})
		},
	}
}

func (a *app) runExecutionsListBackground(ctx context.Context) error {
	return a.withDaemonHome(ctx, func(d *daemon.Daemon, h *home.Home) error {
		all, err := d.ListBackground(ctx, h)
		if err != nil {
			return err
		}
		if a.json {
			return writeList(a, "executions", all)
		}
		a.printEmpty(len(all), "there are no background executions; start one with `sandpiper executions run`")
		for _, b := range all {
			a.printf("%s  %s  %s\n", b.ID, b.Changed.Local().Format("2006-01-02 15:04:05"), completed(a, stateText(b)))
		}
		return nil
	})
}
