package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.report(ctx, root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sandpiper",
		Short: "Run Python in a sandbox, from the command line or as an MCP server",
		Long: `Sandpiper runs Python code in a sandbox for hostile code: no network, no files
except one workspace, limited time and memory. It is one program with CPython
included; nothing else needs to be installed.`,
		Example: `  sandpiper exec -c 'sum(range(10))'
  sandpiper exec --file sales.csv -c 'read_file("sales.csv").count("\n")'
  sandpiper serve`,
		Args:          cobra.NoArgs,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.config, "config", "", "configuration `FILE`, instead of your own and the project's (default: sandpiper.yaml in your configuration directory, and trusted files in the working directory)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.SetVersionTemplate(thisProgram().String())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.CompletionOptions.HiddenDefaultCmd = false
	for _, c := range []*cobra.Command{a.execCommand(), a.serveCommand(), a.filesCommand(), a.skillsCommand(), a.stateCommand(), a.taskCommand(), a.workflowCommand(), a.toolsCommand(), a.serversCommand(), a.sessionCommand(), a.executionsCommand(), a.schedulesCommand(),
		a.piiCommand(), a.policyCommand(), a.approvalsCommand(), a.auditCommand(), a.statsCommand(), a.tenantCommand(), a.backupCommand(), a.restoreCommand(), a.initCommand(), a.trustCommand(), a.packagesCommand(), a.doctorCommand(), a.benchCommand(), a.versionCommand()} {
		root.AddCommand(c)
	}
	checkUsage(root)
	return root
}

// checkUsage converts errors about arguments to usage errors, in c and all its
// subcommands.
func checkUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage{fmt.Errorf("%w; see sandpiper %s", err, strings.TrimPrefix(cmd.CommandPath()+" --help", "sandpiper "))}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkUsage(sub)
	}
}
