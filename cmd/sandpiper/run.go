package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Exit codes are a contract with scripts.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitRaised = 3 // the code raised an exception
	exitLimit  = 4 // the code hit a limit
)

// exit is an error that has been told already; only its code is left to give.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usage is a command line that makes no sense.
type usage struct{ error }

func usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// app is what every command works with.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	config         string        // --config
	untrusted      bool          // it was said which files are not read
	json           bool          // --json
	tenant         string        // --tenant; "" for a command that has no such flag
	lines          *bufio.Reader // of stdin, once the code asked something
	reading        chan read     // the line of it that somebody waits for; nil if nobody does
}

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
		Short: "Run Python in a sandbox, from here or behind an MCP server",
		Long: `Sandpiper runs Python code in a sandbox that hostile code cannot leave: no
network, no files but one workspace, bounded time and memory. It is one program
with CPython inside; nothing else needs to be installed.`,
		Example: `  sandpiper exec -c 'sum(range(10))'
  sandpiper exec --file sales.csv -c 'read_file("sales.csv").count("\n")'
  sandpiper serve`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.config, "config", "", "configuration `FILE`, in place of your own and the project's (default: sandpiper.yaml in your configuration directory, and files here that you trust)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "answer in JSON")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.CompletionOptions.HiddenDefaultCmd = false
	for _, c := range []*cobra.Command{a.execCommand(), a.serveCommand(), a.filesCommand(), a.skillsCommand(), a.toolsCommand(), a.sessionCommand(), a.executionsCommand(),
		a.piiCommand(), a.policyCommand(), a.approvalsCommand(), a.auditCommand(), a.statsCommand(), a.initCommand(), a.trustCommand(), a.packagesCommand(), a.doctorCommand(), a.benchCommand(), a.versionCommand()} {
		root.AddCommand(c)
	}
	checkUsage(root)
	return root
}

// checkUsage turns complaints about arguments into usage errors, in c and all
// commands below it.
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

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is no command of %s", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// report tells what went wrong and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	message, hint, code := a.explain(ctx, err)
	if a.json {
		_ = a.writeJSON(failure{Error: message, Hint: hint})
	}
	s := styleFor(a.stderr)
	fmt.Fprintln(a.stderr, s.red("error:"), visible(message))
	if hint != "" {
		fmt.Fprintln(a.stderr, s.yellow("hint:"), visible(hint))
	}
	return code
}

// failure is how every command reports a failure in JSON.
type failure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
	Hint    string `json:"hint,omitempty"`
}

func (a *app) explain(ctx context.Context, err error) (message, hint string, code int) {
	if u, ok := errors.AsType[usage](err); ok {
		return u.Error(), "", exitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return "interrupted", "", exitFailed
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		code := exitFailed
		if f.Kind == fault.Invalid {
			code = exitUsage
		}
		return inFlags(f.Message), inFlags(f.Hint), code
	}
	// An error without a message for others is still better read by the person
	// at this terminal, whose machine and files it speaks of, than hidden.
	return err.Error(), "", exitFailed
}

// writeJSON writes v as one line.
func (a *app) writeJSON(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(b)
	return err
}

// encode returns v as a line of JSON in which < and > stand as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// printf writes for a person. Arguments that come from outside go through
// visible or visibleName first.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.stdout, format, args...) }
