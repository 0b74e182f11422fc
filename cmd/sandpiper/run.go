package main

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// run executes one command line of a program with features, and returns the exit code.
func run(ctx context.Context, features []feature.Feature, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := cli.New(buildVersion(), stdin, stdout, stderr)
	env.Features = feature.OfDaemon(features)
	root := root(env, features)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	addCompletions(env, root)
	c, err := root.ExecuteContextC(ctx)
	return env.Report(ctx, cli.Suggest(ctx, env, c, err))
}

func root(env *cli.Env, features []feature.Feature) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "sandpiper",
		Short: "Run Python in a sandbox, from the command line or as an MCP server",
		Long: `Sandpiper runs Python code in a sandbox for hostile code, with the tools of MCP
servers as functions. It is one program with CPython included.`,
		Example:       quickStart,
		Args:          cli.CommandsOnly,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return runVersion(env)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the versions of the program, of Python and of MCP")
	root.PersistentFlags().StringVar(&env.ConfigFile, "config", "",
		"configuration `FILE`, instead of your own and the project's (default: sandpiper.yaml in your configuration directory, and "+
			"trusted files in the working directory)")
	root.PersistentFlags().BoolVar(&env.JSON, "json", false, "print JSON")
	root.PersistentFlags().BoolFunc("json-lines", "print JSON, and lists with a line for each item", func(text string) (err error) {
		env.JSONLines, err = strconv.ParseBool(text)
		env.JSON = env.JSON || env.JSONLines
		return err
	})
	root.SetFlagErrorFunc(cli.FlagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	ofCommand := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == root {
			printHelp(env.Stdout, root)
			return
		}
		ofCommand(c, args)
	})
	addCommands(env, root, features)
	cli.CheckUsage(root)
	return root
}
