package workflow

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

type runOptions struct {
	name   string // of the workflow, or its file
	inputs string
	given  []string // NAME=VALUE
}

func runCommand(env *cli.Env) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use: "run NAME|FILE", Short: "Check and run a workflow",
		Long: `Run compiles a workflow and runs it as one execution, where policy, approvals, privacy
and the audit log apply as to all code. A run that was interrupted is continued with
sandpiper executions resume, with the code that it was started with.

Exit codes are those of sandpiper exec.`,
		Example: `  sandpiper workflow run weekly_report --input repo=acme/shop
  sandpiper workflow run ./orders.yaml --inputs '{"shop": "north", "limit": 20}'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runRun(cmd.Context(), env, o)
		},
	}
	cli.SetArguments(env, c, workflowNames)
	c.Flags().StringVar(&o.inputs, "inputs", "", "the inputs, a `JSON` object")
	c.Flags().StringArrayVar(&o.given, "input", nil, "an input as `NAME=VALUE`; a value that is not JSON is text (may be repeated)")
	return c
}

// readInputs returns the inputs as a JSON object.
func (o runOptions) readInputs() (json.RawMessage, error) {
	inputs := map[string]json.RawMessage{}
	if o.inputs != "" {
		if err := json.Unmarshal([]byte(o.inputs), &inputs); err != nil {
			return nil, cli.Usagef("--inputs %.60q is not a JSON object", o.inputs)
		}
	}
	for _, g := range o.given {
		name, value, ok := strings.Cut(g, "=")
		if !ok || name == "" {
			return nil, cli.Usagef("--input %.60q is not NAME=VALUE", g)
		}
		if inputs[name] = json.RawMessage(value); !json.Valid(inputs[name]) {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			inputs[name] = text
		}
	}
	return json.Marshal(inputs)
}

func runRun(ctx context.Context, env *cli.Env, o runOptions) error {
	inputs, err := o.readInputs()
	if err != nil {
		return err
	}
	return cli.WithWarmHome(ctx, env, result.Printer(env), func(d *daemon.Daemon, home *home.Home) error {
		p, err := loadProgram(ctx, env, d, home, o.name)
		if err != nil {
			return err
		}
		x, err := of(d).Start(ctx, home, "", p, inputs)
		if err != nil {
			return err
		}
		r, err := result.Wait(ctx, env, d, home, x)
		if err != nil {
			return err
		}
		if place := p.FailedAt(r.Traceback); !r.Success() && place != "" && !env.JSON {
			env.Warn("failed in " + cli.VisibleName(place))
		}
		return result.Print(ctx, env, r)
	})
}

// loadProgram compiles a workflow by name, or in a file.
func loadProgram(ctx context.Context, env *cli.Env, d *daemon.Daemon, home *home.Home, name string) (*Program, error) {
	if !strings.ContainsAny(name, `/\.`) {
		return of(d).Load(ctx, home, "", name)
	}
	data, err := readSource(name)
	if err != nil {
		return nil, err
	}
	return of(d).Program(ctx, home, "", name, data)
}

func runSave(ctx context.Context, env *cli.Env, file string) error {
	data, err := readSource(file)
	if err != nil {
		return err
	}
	return cli.WithWarmHome(ctx, env, nil, func(d *daemon.Daemon, home *home.Home) error {
		name, err := of(d).Save(ctx, home, "", data)
		if err == nil {
			env.Printf("saved %s\n", name)
		}
		return err
	})
}

func runDelete(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error { return saved.Open(home).Delete(ctx, name) })
}

func runList(ctx context.Context, env *cli.Env, _ string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		names, err := of(d).Names(ctx, home)
		if err != nil {
			return err
		}
		all, err := of(d).Describe(ctx, home, names)
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "workflows", all)
		}
		env.PrintEmpty(len(all), "there are no workflows; save one with `sandpiper workflow save`")
		for _, w := range all {
			about, kind := w.Description, ""
			if w.Exported {
				kind = " (a tool)"
			}
			if w.Problem != "" {
				about = "wrong: " + w.Problem
			}
			env.Printf("%s%s  %s\n", w.Name, kind, cli.VisibleName(cli.FirstLine(about)))
		}
		return nil
	})
}

func runShow(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		if !strings.HasPrefix(name, "exec_") {
			source, err := of(d).Source(ctx, home, name)
			if err == nil && env.JSON {
				return env.WriteJSON(map[string]string{"name": name, "source": string(source)})
			}
			if err == nil {
				env.Printf("%s", cli.Visible(string(source)))
			}
			return err
		}
		r, err := of(d).Find(ctx, home, name)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(r)
		}
		printRun(env, r)
		env.Printf("inputs: %s\n", cli.Visible(string(r.Inputs)))
		if r.Value != nil {
			env.Printf("result: %s\n", cli.Visible(string(r.Value)))
		}
		if r.Error != "" {
			env.Printf("error: %s\n", cli.Visible(r.Error))
		}
		return nil
	})
}

func historyCommand(env *cli.Env) *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use: "history [NAME]", Short: "List runs, the latest first",
		Long: `History lists the runs of all workflows, or of one: id, start, state, and what
is on record of those that can be resumed. The last 1,000 runs are kept.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHistory(cmd.Context(), env, strings.Join(args, ""), limit)
		},
	}
	cli.SetArguments(env, c, workflowNames)
	c.Flags().IntVar(&limit, "limit", limit, "maximum number of runs")
	return c
}

func runHistory(ctx context.Context, env *cli.Env, name string, limit int) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		all, err := of(d).History(ctx, home, name, limit)
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "runs", all)
		}
		for _, r := range all {
			printRun(env, r)
		}
		return nil
	})
}

func printRun(env *cli.Env, r Run) {
	version := ""
	if r.Version != "" {
		version = " " + r.Version
	}
	why := ""
	if r.Error != "" {
		why = ": " + cli.VisibleName(mcpserver.Reason(r.ErrorType, r.Error))
	}
	if r.Why != "" {
		why += ": " + r.Why
	}
	env.Printf("%s  %s  %s%s  %s%s\n", r.Execution, r.Started.Local().Format(time.DateTime), cli.VisibleName(r.Workflow),
		cli.VisibleName(version), r.State, why)
}
