package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
)

// docs/commands.md lists the commands with their flags; UPDATE_SCRIPTS writes it.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/commands.md"
	var b strings.Builder
	b.WriteString(`# Commands

Generated from the program, which has the same with ` + "`sandpiper COMMAND --help`" + `, examples included. Every command has ` + "`--json`, `--config FILE` and `--help`" + `;
with ` + "`--json-lines`" + ` a list is a line of JSON for each item. ` + "`sandpiper completion bash`, `zsh`, `fish` or `powershell`" + ` prints a script that completes commands, flags, and
the names of servers, tools, skills, sessions and files. What is empty, and what to do, is printed to standard error instead of an empty list.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the code raised an exception, 4 it reached a limit.

| command | what it does | flags |
|---|---|---|
`)
	writeCommands(&b, newRoot())
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("docs/commands.md differs from the program (+); UPDATE_SCRIPTS=1 updates it:\n%s", diff)
	}
}

// writeCommands writes a row for each command below c that does something itself.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	for _, sub := range c.Commands() {
		switch {
		case !sub.IsAvailableCommand() || sub.Name() == "completion":
		case sub.HasAvailableSubCommands():
			writeCommands(b, sub)
		default:
			var flags []string
			sub.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && f.Name != "help" {
					flags = append(flags, "`--"+f.Name+"`")
				}
			})
			use := strings.TrimSuffix(sub.UseLine(), " [flags]")
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", strings.ReplaceAll(strings.TrimPrefix(use, "sandpiper "), "|", `\|`), sub.Short,
				strings.Join(flags, " "))
		}
	}
}

// newRoot returns the program with all features.
func newRoot() *cobra.Command {
	return root(cli.New("", nil, io.Discard, io.Discard), all.Features())
}
