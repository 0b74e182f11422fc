package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
)

// addCompletions sets the completion of the arguments and flags of c and its subcommands that do not
// have their own.
func addCompletions(env *cli.Env, c *cobra.Command) {
	if all := argumentValues[commandName(c)]; len(all) > 0 {
		cli.SetArguments(env, c, all...)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if v := flagValues(f); v != nil {
			cli.SetFlag(env, c, f.Name, v)
		}
	})
	for _, sub := range c.Commands() {
		addCompletions(env, sub)
	}
}

// commandName returns the words of a command after the name of the program.
func commandName(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}
