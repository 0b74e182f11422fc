package workflow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// commands returns the command workflow.
func commands(env *cli.Env) []*cobra.Command {
	c := cli.OfTenant(env, cli.Group("workflow", "Check, run and save workflows: steps in YAML, compiled to Python",
		checkCommand(env),
		runCommand(env),
		&cobra.Command{
			Use: "list", Short: "List the workflows that can be run",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), env) },
		},
		&cobra.Command{
			Use: "show NAME|ID", Short: "Print a workflow, or a run with its inputs and result",
			Example: "  sandpiper workflow show weekly_report > weekly_report.yaml\n  sandpiper workflow show exec_e25rjubtohqyskjqfnsornzl3p",
			Args:    cobra.ExactArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return runShow(cmd.Context(), env, args[0]) },
		},
		historyCommand(env),
		resumeCommand(env),
		&cobra.Command{
			Use: "cancel ID", Short: "Give up an interrupted run, so that it cannot be resumed",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runCancel(cmd.Context(), env, args[0]) },
		},
		&cobra.Command{
			Use: "save FILE", Short: "Check a workflow and save it for the tenant",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runSave(cmd.Context(), env, args[0]) },
		},
		&cobra.Command{
			Use: "delete NAME", Short: "Delete a saved workflow; its runs remain",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runDelete(cmd.Context(), env, args[0]) },
		},
		&cobra.Command{
			Use: "schema", Short: "Print the JSON schema of workflow files, for editors",
			Example: "  sandpiper workflow schema > workflow.schema.json",
			Args:    cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				env.Printf("%s", Schema)
				return nil
			},
		},
	))
	for _, sub := range c.Commands() {
		switch sub.Name() {
		case "cancel", "resume":
			cli.SetArguments(env, sub, cli.Named(journal.OpenWorkflowQuery))
		case "check", "save":
			cli.SetArguments(env, sub, cli.LocalFiles)
		case "delete":
			cli.SetArguments(env, sub, cli.Named(saved.NameQuery))
		case "history", "run":
			cli.SetArguments(env, sub, workflowNames)
		case "show":
			cli.SetArguments(env, sub, namesAndRuns)
		}
	}
	c.GroupID = cli.CodeGroup
	return []*cobra.Command{c}
}

// of returns the workflows of a daemon.
func of(d *daemon.Daemon) *Service { return daemon.Started[*Service](d) }

type checkOptions struct {
	python bool
	graph  string
}

func checkCommand(env *cli.Env) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use: "check FILE...", Short: "Report the errors in workflow files, with line and column",
		Long: `Check reports unknown keys, tools, arguments and references, wrong and missing
arguments, cycles, loops without a bound, and steps that cannot be reached, as
FILE:LINE:COLUMN: message. Nothing is run, and no tool is called; servers are started
to list their tools. It exits with 1 if it finds errors.`,
		Example: `  sandpiper workflow check orders.yaml
  sandpiper workflow check orders.yaml --python
  sandpiper workflow check orders.yaml --graph > orders.mmd`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.python || o.graph != "") && len(args) > 1 || o.python && o.graph != "" {
				return cli.Usagef("--python and --graph print one thing of one FILE")
			}
			return runCheck(cmd.Context(), env, args, o)
		},
	}
	c.Flags().BoolVar(&o.python, "python", false, "print the Python to which the workflow is compiled")
	cli.EnumFlag(c.Flags(), &o.graph, "graph", "", "print the steps and their order as `FORMAT`: mermaid", "mermaid")
	c.Flags().Lookup("graph").NoOptDefVal = "mermaid"
	return c
}

// checkedFile is the result of checking a file.
type checkedFile struct {
	File     string    `json:"file"`
	Workflow string    `json:"workflow,omitempty"`
	Findings []Finding `json:"findings"`
	Parallel []Finding `json:"parallel,omitempty"` // what runs at the same time
}

func runCheck(ctx context.Context, env *cli.Env, files []string, o checkOptions) error {
	sources := map[string][]byte{}
	for _, file := range files {
		data, err := readSource(file)
		if err != nil {
			return err
		}
		sources[file] = data
	}
	if o.graph != "" { // needs no tools
		return printGraph(env, files[0], sources[files[0]])
	}
	return cli.WithWarmHome(ctx, env, nil, func(d *daemon.Daemon, home *home.Home) error {
		all, wrong := []checkedFile{}, false
		for _, file := range files {
			p, found, err := of(d).Check(ctx, home, "", file, sources[file])
			if err != nil {
				return err
			}
			wrong = wrong || len(found) > 0
			c := checkedFile{File: file, Findings: append([]Finding{}, found...)}
			if p != nil {
				c.Workflow, c.Parallel = p.Workflow.Name, p.Parallel
			}
			all = append(all, c)
			if !env.JSON {
				printFindings(env, found)
			}
			switch {
			case p == nil || env.JSON:
			case o.python:
				env.Printf("%s", p.Code)
			default:
				printFindings(env, p.Parallel)
			}
		}
		if env.JSON {
			if err := env.WriteJSON(map[string]any{"success": !wrong, "files": all}); err != nil {
				return err
			}
		}
		if wrong {
			return cli.Exit(cli.ExitFailed)
		}
		return nil
	})
}

func printFindings(env *cli.Env, found []Finding) {
	for _, f := range found {
		env.Printf("%s\n", cli.VisibleName(f.String()))
	}
}

func printGraph(env *cli.Env, file string, data []byte) error {
	w, found := Parse(file, data)
	if len(found) == 0 {
		_, found = Compile(w, Library{Workflow: Any})
	}
	if len(found) > 0 {
		printFindings(env, found)
		return cli.Exit(cli.ExitFailed)
	}
	env.Printf("%s", w.Mermaid())
	return nil
}

// readSource reads the file of a workflow, or one byte more than is allowed.
func readSource(path string) ([]byte, error) {
	f, err := cli.OpenInput(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return []byte(strings.TrimPrefix(string(data), string(cli.ByteOrderMark))), nil
}

// workflowNames returns the saved workflows, and those in the directory of the configuration.
func workflowNames(r cli.Request) ([]cobra.Completion, error) {
	all, err := cli.Named(saved.NameQuery)(r)
	if dir(r.Cfg) != "" {
		files, _ := filepath.Glob(filepath.Join(dir(r.Cfg), "*.y*ml"))
		for _, f := range files {
			all = append(all, strings.TrimSuffix(filepath.Base(f), filepath.Ext(f)))
		}
	}
	return all, err
}

func namesAndRuns(r cli.Request) ([]cobra.Completion, error) {
	all, err := workflowNames(r)
	runs, _ := cli.Named(journal.WorkflowQuery)(r)
	return append(all, runs...), err
}
