// Package cli contains what the commands of the program share: the environment of a command line, which
// prints, asks and reports errors, values of flags, and the daemon and the home that a command works on.
// It defines no command.
//
// A command is a function of its context, an Env and its options. An Env is used by one goroutine, but
// its writers and its status line by several.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Exit codes are a contract with scripts.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitRaised = 3 // the code raised an exception
	ExitLimit  = 4 // the code hit a limit

	ExitInterrupted = 130 // by Ctrl-C, as shells report it
)

// Groups of the help.
const (
	CodeGroup    = "Code"              // commands for code and its data
	ServersGroup = "Servers and tools" // commands for servers and their tools
	// OperationGroup is of commands for the people who run the program for others.
	OperationGroup = "Operation"
)

// Exit is the code of an error that has been reported already.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Env is the environment of one command line: its streams, and its global flags once they are parsed.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        string           // of the program
	Features       []daemon.Feature // of its daemons
	ConfigFile     string           // --config
	JSON           bool             // --json or --json-lines
	JSONLines      bool             // --json-lines
	Tenant         string           // --tenant; "" for a command without that flag

	loaded     bool                        // the configuration was loaded before
	lines      *bufio.Reader               // of Stdin, once a question was asked
	reading    chan input                  // receives the line that is being read; nil if none is
	installing atomic.Bool                 // InstallProgress is writing a line
	line       *statusLine                 // nil without a terminal
	out        *output                     // Stdout
	arguments  map[*cobra.Command][]Values // by position
}

// input is a line read from the terminal.
type input struct {
	text string
	err  error
}

// New returns the environment of a command line of a version of the program. On a terminal, stdout and
// stderr clear the status line before they write.
func New(version string, stdin io.Reader, stdout, stderr io.Writer) *Env {
	stdout, stderr, line := shareTerminal(stdout, stderr)
	out := &output{Writer: stdout}
	return &Env{
		Stdin:     stdin,
		Stdout:    out,
		Stderr:    stderr,
		Version:   version,
		line:      line,
		out:       out,
		arguments: map[*cobra.Command][]Values{},
	}
}

// RawStdout returns stdout without the record of its errors, for a protocol whose client may close it first.
func (env *Env) RawStdout() io.Writer { return env.out.Writer }

// Group returns a command that only has subcommands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		Args: CommandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// Report prints the error of the command, if it is not nil, and returns the exit code.
func (env *Env) Report(ctx context.Context, err error) int {
	if err == nil {
		return env.reportlost()
	}
	if code, ok := errors.AsType[Exit](err); ok {
		return int(code)
	}
	message, hint, code := env.explain(ctx, err)
	if env.JSON {
		_ = env.WriteJSON(failure{Error: message, Hint: hint})
	}
	s := StyleFor(env.Stderr)
	fmt.Fprintln(env.Stderr, s.Red("error:"), Visible(message))
	if hint != "" {
		fmt.Fprintln(env.Stderr, s.Yellow("hint:"), Visible(hint))
	}
	return code
}

// reportLost returns the exit code of a command without an error, whose output may be lost.
func (env *Env) reportlost() int {
	err := env.out.lost()
	if err == nil {
		return ExitOK
	}
	fmt.Fprintln(env.Stderr, StyleFor(env.Stderr).Red("error:"), "the output could not be written:", err)
	return ExitFailed
}

// failure is the JSON output of a failed command.
type failure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
	Hint    string `json:"hint,omitempty"`
}

func (env *Env) explain(ctx context.Context, err error) (message, hint string, code int) {
	if u, ok := errors.AsType[usage](err); ok {
		return u.Error(), "", ExitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return "interrupted", "", ExitInterrupted
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		code := ExitFailed
		if f.Kind == fault.Invalid {
			code = ExitUsage
		}
		return Completed(env, WithFlagNames(fault.Message(err))), Completed(env, WithFlagNames(fault.Hint(err))), code
	}
	// The error is not a fault, which hides its cause from remote clients. Here the
	// cause concerns the user's own machine and files, so it is printed.
	return err.Error(), fault.Hint(err), ExitFailed
}
