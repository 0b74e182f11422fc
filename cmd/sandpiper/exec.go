package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func execCommand(env *cli.Env) *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:        "exec [FILE|-] [-c CODE]",
		SuggestFor: []string{"run", "python"},
		Short:      "Run Python in the sandbox",
		Long: `Exec runs Python code from a file, from standard input or from -c, and prints its
output and its result: the variable result, or the last expression.

The code has access to one directory, /workspace, which persists. --file copies a
file into it first; see also sandpiper files.

With --dry-run, calls of tools that may have side effects are not made: the command
prints them as a plan. Calls of read-only tools are made.

With --session the execution is logged as a task of that session. The interpreter
ends with the command, so variables do not persist from one exec to the next. The
log and the files do, and sandpiper session resume rebuilds variables from the log.

Exit codes: 0 success, 1 the code could not be run, 2 invalid command line,
3 the code raised an exception, 4 it reached a limit.`,
		Example: `  sandpiper exec -c '1 + 1'
  sandpiper exec report.py
  echo 'result = [x * x for x in range(5)]' | sandpiper exec -
  sandpiper exec --file orders.json -c '
  orders = json.loads(read_file("orders.json"))
  result = aggregate_stats(orders, ["amount"])'
  sandpiper exec --context '{"name": "Ada"}' -c 'f"Hello {name}"'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source.Inline = cmd.Flags().Changed("code")
			if cmd.Flags().Changed("timeout") && o.timeout == 0 || cmd.Flags().Changed("memory") && o.memory == 0 {
				return cli.Usagef("--timeout and --memory must be more than 0; omit them for the defaults")
			}
			if len(args) > 0 {
				o.source.File = args[0]
			}
			return runExec(cmd.Context(), env, o)
		},
	}
	f := c.Flags()
	f.StringVarP(&o.source.Text, "code", "c", "", "run `CODE`")
	cli.DurationFlag(f, &o.timeout, "timeout", 0, "stop the code after this time (default 30s)")
	f.IntVar(&o.memory, "memory", 0, "memory in `MB` that the code may use (default 500)")
	f.StringVar(&o.vars, "context", "", "`JSON` object whose keys become variables")
	f.StringVar(&o.session, "session", "", "log the execution as a task of session `ID`")
	f.BoolVar(&o.dryRun, "dry-run", false, "plan the calls of tools that may have side effects without making them")
	f.StringArrayVar(&o.files, "file", nil, "copy `PATH` into the workspace first (may be repeated)")
	return cli.OfTenant(env, c)
}

func runExec(ctx context.Context, env *cli.Env, o execOptions) error {
	req, err := newRequest(env, o)
	if err != nil {
		return err
	}
	return cli.WithWarmHome(ctx, env, result.Printer(env), func(d *daemon.Daemon, home *home.Home) error {
		if err := putFiles(ctx, env, home, o.files); err != nil {
			return err
		}
		r, err := result.Execute(ctx, env, d, home, req)
		if err != nil {
			return err
		}
		if !env.JSON {
			result.ExplainSession(ctx, home, req.SessionID, &r)
		}
		return result.Print(ctx, env, r)
	})
}

// putFiles copies files into the workspace.
func putFiles(ctx context.Context, env *cli.Env, home *home.Home, files []string) error {
	for _, path := range files {
		if path == "-" {
			return cli.Usagef("--file takes a path; for standard input use sandpiper files put - --as NAME first")
		}
		if _, err := putFile(ctx, env, home, path, filepath.Base(path)); err != nil {
			return err
		}
	}
	return nil
}
