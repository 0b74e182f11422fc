package workflow

import (
	"bytes"
	"context"
	"fmt"
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
	simple := func(use, short string, run func(ctx context.Context, env *cli.Env, name string) error, values ...cli.Values) *cobra.Command {
		c := &cobra.Command{
			Use: use, Short: short,
			Args: cobra.ExactArgs(strings.Count(use, " ")),
			RunE: func(cmd *cobra.Command, args []string) error {
				return run(cmd.Context(), env, strings.Join(args, ""))
			},
		}
		cli.SetArguments(env, c, values...)
		return c
	}
	show := simple("show NAME|ID", "Print a workflow, or a run with its inputs and result", runShow, namesAndRuns)
	show.Example = "  sandpiper workflow show weekly_report > weekly_report.yaml\n  sandpiper workflow show exec_e25rjubtohqyskjqfnsornzl3p"
	schema := simple("schema", "Print the JSON schema of workflow files, for editors", runSchema)
	schema.Example = "  sandpiper workflow schema > workflow.schema.json"
	c := cli.OfTenant(env, cli.Group("workflow", "Check, run and save workflows: steps in YAML, compiled to Python",
		checkCommand(env),
		runCommand(env),
		historyCommand(env),
		simple("list", "List the workflows that can be run", runList),
		show,
		simple("save FILE", "Check a workflow and save it for the tenant", runSave, cli.LocalFiles),
		simple("delete NAME", "Delete a saved workflow; its runs remain", runDelete, cli.Named(saved.NameQuery)),
		schema,
	))
	c.GroupID = cli.CodeGroup
	return []*cobra.Command{c}
}

func runSchema(_ context.Context, env *cli.Env, _ string) error {
	env.Printf("%s", Schema)
	return nil
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
	cli.SetArguments(env, c, cli.LocalFiles)
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
	data, err := cli.ReadInput(path, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return bytes.TrimPrefix(data, cli.ByteOrderMark), nil
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
