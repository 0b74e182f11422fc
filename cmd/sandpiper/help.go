package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// quickStart is printed by the help of the program.
const quickStart = `  sandpiper init                           import servers of other clients
  sandpiper exec -c 'sum(range(10))'       run Python in the sandbox
  sandpiper tools search create an issue   find a tool
  sandpiper init --apply claude-code       add Sandpiper to Claude Code`

// addCommands adds the commands to the program, in groups. The help lists the names of those
// without a group only.
func addCommands(env *cli.Env, root *cobra.Command, features []feature.Feature) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{cli.CodeGroup, []*cobra.Command{execCommand(env), executionsCommand(env), filesCommand(env), sessionCommand(env)}},
		{cli.ServersGroup, []*cobra.Command{serversCommand(env), toolsCommand(env)}},
		{"Safety", []*cobra.Command{approvalsCommand(env), auditCommand(env), piiCommand(env), policyCommand(env), trustCommand(env)}},
		{cli.OperationGroup, []*cobra.Command{configCommand(env), doctorCommand(env), serveCommand(env), tenantCommand(env)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(packagesCommand(env), statsCommand(env), versionCommand(env))
	for _, f := range features {
		if f.Commands != nil {
			addFeature(root, f.Commands(env))
		}
	}
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = cli.CommandsOnly, func(c *cobra.Command, _ []string) error { return c.Help() }
		case "help":
			c.Args = aCommand
		}
	}
}

// addFeature adds the commands of a feature. Those of a group that the program has are added to it.
func addFeature(root *cobra.Command, commands []*cobra.Command) {
	for _, c := range commands {
		has := slices.IndexFunc(root.Commands(), func(o *cobra.Command) bool { return o.Name() == c.Name() })
		if has < 0 {
			root.AddCommand(c)
			continue
		}
		root.Commands()[has].AddCommand(c.Commands()...)
	}
}

// aCommand checks that the arguments of help name a command.
func aCommand(c *cobra.Command, args []string) error {
	c = c.Root()
	for _, word := range args {
		sub, _, err := c.Find([]string{word})
		if err != nil || sub == c {
			return cli.UnknownCommand(c, word)
		}
		c = sub
	}
	return nil
}

// printHelp prints the help of the program in one screen.
func printHelp(w io.Writer, root *cobra.Command) {
	s := cli.StyleFor(w)
	fmt.Fprintf(w, "%s\n\n%s\n%s\n", root.Long, s.Bold("Quick start:"), quickStart)
	more := []string{"Others:"}
	for _, g := range root.Groups() {
		fmt.Fprintf(w, "\n%s\n", s.Bold(g.Title))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				fmt.Fprintf(w, "  %-11s %s\n", c.Name(), c.Short)
			}
		}
	}
	for _, c := range root.Commands() {
		if c.GroupID == "" && c.IsAvailableCommand() || c.Name() == "help" {
			more = append(more, c.Name())
		}
	}
	fmt.Fprintf(w, "\n%s\nEvery command has --help, --json, --json-lines and --config FILE.\n", strings.Join(more, " "))
}
