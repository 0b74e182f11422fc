package task

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

type options struct {
	query    task.Query
	dryRun   bool
	showCode bool
	session  string
	model    string
}

// change replaces the configured model by that of the command.
func (o options) change(c *config.Config) error {
	if o.model == "" {
		return nil
	}
	return config.Of[Settings](c).SetModel(o.model)
}

// commands returns the command task, and the command select for tools.
func commands(env *cli.Env) []*cobra.Command {
	c := cli.Group("task", "Solve tasks described in words", runCommand(env))
	c.GroupID = cli.CodeGroup
	return []*cobra.Command{c, cli.Group("tools", "", selectCommand(env))}
}

func runCommand(env *cli.Env) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "run TASK", Short: "Select tools for a task, write a program and run it",
		Long: `Run selects the tools that a task needs, writes a Python program that calls them, and
runs it in the sandbox, where policy, approvals, privacy and the audit log apply. The
program may call the selected tools only. Without a model it is written by rules: state
every value in the task, and quote texts. What cannot be filled is reported, and nothing
runs.`,
		Example: `  sandpiper task run 'Calculate 5 + 3'
  sandpiper task run 'Read data.csv, sum the amount column, write the total to total.txt'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.query.Task = strings.Join(args, " ")
			if err := o.query.Set(&o.query.Threshold, &o.query.TopK); err != nil {
				return err
			}
			return run(cmd.Context(), env, o)
		},
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the calls that would change something instead of making them")
	c.Flags().BoolVar(&o.showCode, "show-code", false, "print the program")
	c.Flags().StringVar(&o.model, "model", "", "write the program with `MODEL`: openai/NAME, azure/DEPLOYMENT, anthropic/NAME or none")
	c.Flags().StringVar(&o.session, "session", "", "run as a step of the session `ID`")
	c.Flags().Float64Var(&o.query.Threshold, "threshold", task.DefaultThreshold, "least `SCORE` of a tool, up to 1")
	c.Flags().IntVar(&o.query.TopK, "top-k", task.DefaultTopK, "select at most `N` tools")
	return cli.OfTenant(env, c)
}

func run(ctx context.Context, env *cli.Env, o options) error {
	return cli.WithWarmDaemon(ctx, env, cli.Options{Output: result.Printer(env), Quiet: true, Change: o.change},
		func(d *daemon.Daemon, home *home.Home) error {
			result, err := daemon.Started[*task.Solver](d).Solve(ctx, task.Task{
				Query: o.query, Home: home, Gate: d.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}),
				Request: execution.Request{DryRun: o.dryRun, SessionID: o.session}, Progress: printer(env),
				Run: func(ctx context.Context, req execution.Request) (reply.Result, error) {
					return result.Execute(ctx, env, d, home, req)
				},
			})
			if err != nil {
				return err
			}
			return printResult(ctx, env, result, o.showCode)
		})
}

// printer returns a function that prints what is being done, on a terminal.
func printer(env *cli.Env) func(string) {
	if env.JSON || !cli.IsTerminal(env.Stderr) {
		return nil
	}
	s := cli.StyleFor(env.Stderr)
	return func(message string) { fmt.Fprintln(env.Stderr, s.Dim(cli.VisibleName(message))) }
}

// printResult prints the result of a task, and on standard error what it cost.
func printResult(ctx context.Context, env *cli.Env, r task.Result, showCode bool) error {
	if env.JSON {
		if err := env.WriteJSON(r); err != nil {
			return err
		}
		if r.Last != nil {
			return result.ExitCode(*r.Last)
		}
		if !r.Success {
			return cli.Exit(cli.ExitRaised)
		}
		return nil
	}
	s := cli.StyleFor(env.Stderr)
	if showCode && r.Code != "" {
		fmt.Fprintln(env.Stderr, s.Dim(cli.Visible(strings.TrimRight(r.Code, "\n"))))
	}
	if showCode || cli.IsTerminal(env.Stderr) {
		fmt.Fprintln(env.Stderr, s.Dim(fmt.Sprintf("tools: %s (%d of %d, %.0f %%); %d tokens of definitions saved",
			cli.VisibleName(strings.Join(r.Tools, ", ")), len(r.Tools), r.Available, 100*r.Share, r.SavedTokens)))
	}
	if r.Last != nil {
		return result.Print(ctx, env, *r.Last)
	}
	return fault.New(fault.Invalid, "%s", r.Error).WithHint("%s", r.Hint)
}
