package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// quickStart is printed by the help of the program.
const quickStart = `  sandpiper init                           import servers of other clients
  sandpiper exec -c 'sum(range(10))'       run Python in the sandbox
  sandpiper tools search create an issue   find a tool
  sandpiper init --apply claude-code       add Sandpiper to Claude Code`

// addCommands adds the commands to the program, in groups. The help lists the names of those
// without a group only.
func (a *app) addCommands(root *cobra.Command) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Code", []*cobra.Command{a.execCommand(), a.executionsCommand(), a.filesCommand(), a.schedulesCommand(), a.sessionCommand(), a.skillsCommand(), a.taskCommand(), a.workflowCommand()}},
		{"Servers and tools", []*cobra.Command{a.initCommand(), a.serversCommand(), a.toolsCommand()}},
		{"Safety", []*cobra.Command{a.approvalsCommand(), a.auditCommand(), a.piiCommand(), a.policyCommand(), a.trustCommand()}},
		{"Operation", []*cobra.Command{a.configCommand(), a.doctorCommand(), a.serveCommand(), a.tenantCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.backupCommand(), a.benchCommand(), a.modelsCommand(), a.packagesCommand(), a.restoreCommand(), a.stateCommand(), a.statsCommand(), a.versionCommand())
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = commandsOnly, func(c *cobra.Command, _ []string) error { return c.Help() }
		case "help":
			c.Args = aCommand
		}
	}
}

// aCommand checks that the arguments of help name a command.
func aCommand(c *cobra.Command, args []string) error {
	c = c.Root()
	for _, word := range args {
		sub, _, err := c.Find([]string{word})
		if err != nil || sub == c {
			return unknownCommand(c, word)
		}
		c = sub
	}
	return nil
}

// printHelp prints the help of the program in one screen.
func printHelp(w io.Writer, root *cobra.Command) {
	s := styleFor(w)
	fmt.Fprintf(w, "%s\n\n%s\n%s\n", root.Long, s.bold("Quick start:"), quickStart)
	more := []string{"Others:"}
	for _, g := range root.Groups() {
		fmt.Fprintf(w, "\n%s\n", s.bold(g.Title))
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
