package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

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

	exitInterrupted = 130 // by Ctrl-C, as shells report it
)

// exit is the code of an error that has been reported already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usage is an error in the command line.
type usage struct{ error }

func usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// app contains the streams and global flags of one command line.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	config         string        // --config
	loaded         bool          // the configuration was loaded before
	json           bool          // --json or --json-lines
	jsonLines      bool          // --json-lines
	tenant         string        // --tenant; "" for a command without that flag
	lines          *bufio.Reader // of stdin, once a question was asked
	reading        chan input    // receives the line that is being read; nil if none is
	installing     atomic.Bool   // installProgress is writing a line
	line           *statusLine   // nil without a terminal
}

// group returns a command that only has subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		Args: commandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// report prints an error and returns the exit code.
func (env *app) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	message, hint, code := env.explain(ctx, err)
	if env.json {
		_ = env.writeJSON(failure{Error: message, Hint: hint})
	}
	s := styleFor(env.stderr)
	fmt.Fprintln(env.stderr, s.red("error:"), visible(message))
	if hint != "" {
		fmt.Fprintln(env.stderr, s.yellow("hint:"), visible(hint))
	}
	return code
}

// failure is the JSON output of a failed command.
type failure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
	Hint    string `json:"hint,omitempty"`
}

func (env *app) explain(ctx context.Context, err error) (message, hint string, code int) {
	if u, ok := errors.AsType[usage](err); ok {
		return u.Error(), "", exitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return "interrupted", "", exitInterrupted
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		code := exitFailed
		if f.Kind == fault.Invalid {
			code = exitUsage
		}
		return completed(env, withFlagNames(fault.Message(err))), completed(env, withFlagNames(fault.Hint(err))), code
	}
	// The error is not a fault, which hides its cause from remote clients. Here the
	// cause concerns the user's own machine and files, so it is printed.
	return err.Error(), fault.Hint(err), exitFailed
}
