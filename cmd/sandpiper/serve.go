package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	flags := map[string]string{}
	var profile string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP over standard input and output",
		Long: `Serve answers an MCP client on standard input and output until it leaves. Clients
start it themselves; put the command into their configuration. Messages for
people go to standard error, or to the file that log.file names.

Profiles: lean offers execute_code alone, standard adds files, skills and
statistics, full adds the rest.`,
		Example: `  sandpiper serve
  sandpiper serve --profile lean
  claude mcp add sandpiper -- sandpiper serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("profile") {
				flags["profile"] = profile
			}
			return a.runServe(cmd.Context(), flags)
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "which tools to offer: lean, standard or full")
	return c
}

func (a *app) runServe(ctx context.Context, flags map[string]string) error {
	d, err := a.daemon(options{flags: flags})
	if err != nil {
		return err
	}
	if isTerminal(a.stdin) {
		a.warn("this speaks MCP on standard input, which is a terminal; an MCP client starts it by itself. Ctrl-D ends it.")
	}
	// A client that closed its end shows as an error of a write, not as our death.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err = d.Serve(ctx, a.stdin, a.stdout)
	if closing := d.Close(); err == nil && closing != nil {
		err = fmt.Errorf("stop: %w", closing)
	}
	return err
}
