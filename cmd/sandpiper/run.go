package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
)

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr, line := shareTerminal(stdout, stderr)
	out := &output{Writer: stdout}
	env := &app{stdin: stdin, stdout: out, stderr: stderr, line: line}
	root := root(env)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		addCompletions(env, root)
	}
	c, err := root.ExecuteContextC(ctx)
	code := env.report(ctx, suggest(ctx, env, c, err))
	if err := out.lost(); err != nil && code == exitOK {
		fmt.Fprintln(stderr, styleFor(stderr).red("error:"), "the output could not be written:", err)
		return exitFailed
	}
	return code
}

// output records the first error of writing to stdout. A command that printed nothing must not
// look successful.
type output struct {
	io.Writer
	err atomic.Pointer[error]
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

// lost returns the error of the output, without the name of the file; nil if all was written.
func (o *output) lost() error {
	err := o.err.Load()
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](*err); ok {
		return e.Err
	}
	return *err
}

func root(env *app) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "sandpiper",
		Short: "Run Python in a sandbox, from the command line or as an MCP server",
		Long: `Sandpiper runs Python code in a sandbox for hostile code, with the tools of MCP
servers as functions. It is one program with CPython included.`,
		Example:       quickStart,
		Args:          commandsOnly,
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
	root.PersistentFlags().StringVar(&env.config, "config", "", "configuration `FILE`, instead of your own and the project's (default: sandpiper.yaml in your configuration directory, and trusted files in the working directory)")
	root.PersistentFlags().BoolVar(&env.json, "json", false, "print JSON")
	root.PersistentFlags().BoolFunc("json-lines", "print JSON, and lists with a line for each item", func(text string) (err error) {
		env.jsonLines, err = strconv.ParseBool(text)
		env.json = env.json || env.jsonLines
		return err
	})
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	ofCommand := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == root {
			printHelp(env.stdout, root)
			return
		}
		ofCommand(c, args)
	})
	addCommands(env, root)
	checkUsage(root)
	return root
}

// checkUsage converts errors about arguments to usage errors, in c and all its
// subcommands.
func checkUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case strings.HasSuffix(err.Error(), "?"): // it has a suggestion
				return usage{err}
			}
			return usage{fmt.Errorf("%s; see %s --help", argumentsText(cmd, args, check, err), cmd.CommandPath())}
		}
	}
	for _, sub := range c.Commands() {
		checkUsage(sub)
	}
}
