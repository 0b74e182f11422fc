package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

func (a *app) toolsCommand() *cobra.Command {
	return group("tools", "Search and manage the tools of connected MCP servers",
		a.toolsListCommand(),
		a.toolsSearchCommand(),
		a.toolsSelectCommand(),
		a.toolsGetCommand(),
		&cobra.Command{
			Use: "categories", Short: "List categories of tools",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runToolsCategories(cmd.Context()) },
		},
		&cobra.Command{
			Use: "sync [SERVER...]", Short: "List the tools of servers again, and report their state",
			Long: `Sync lists the tools of the given servers, or of all, and stores the definitions, so
that search, definitions and modules work while the servers are not running. It waits
for servers to start, each for its start_timeout (60s), and exits with 1 if one did
not start. A tool whose definition changed since it was trusted is quarantined until
it is accepted.`,
			RunE: func(cmd *cobra.Command, args []string) error { return a.runToolsSync(cmd.Context(), args) },
		},
		a.toolsCallCommand(),
		a.toolsAcceptCommand(),
		a.toolsForgetCommand(),
		a.toolsLoginCommand(),
		a.toolsLogoutCommand(),
	)
}

func (a *app) toolsSearchCommand() *cobra.Command {
	var q lookup.Query
	c := &cobra.Command{
		Use: "search [QUERY...]", Short: "Find tools by what they do",
		Long: `Search searches the tools of all servers, handwritten modules and saved skills. Topics between commas, or in
arguments with quotes, are searched one by one; the best tool for each comes first. Search first lists the tools of servers whose
tools have never been listed, and warns if that was not possible for one. It exits with 1 if it then
found nothing.`,
		Example: "  sandpiper tools search create an issue\n  sandpiper tools search 'list orders' 'exchange rates'\n  sandpiper tools search --explain create an issue\n  sandpiper tools search --category dev",
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Text = strings.Join(args, " "); slices.ContainsFunc(args, func(a string) bool { return strings.Contains(strings.TrimSpace(a), " ") }) {
				q.Text = lookup.JoinTopics(args...) // quoted: each is a topic
			}
			return a.runToolsSearch(cmd.Context(), q)
		},
	}
	c.Flags().StringVar(&q.Category, "category", "", "only tools of `CATEGORY`")
	enumFlag(c.Flags(), &q.Detail, "detail", lookup.Summary, "`LEVEL` of detail: brief, name, summary or full", "brief", "name", "summary", "full")
	c.Flags().BoolVar(&q.Explain, "explain", false, "show the score of each tool, and what it gains from use by the tenant")
	c.Flags().IntVar(&q.Limit, "max", 0, "at most `N` tools (default 10, and 20 with --detail brief)")
	return a.ofTenant(c)
}

func (a *app) toolsGetCommand() *cobra.Command {
	var category string
	c := &cobra.Command{
		Use: "get TOOL", Short: "Print the definition of a tool",
		Example: "  sandpiper tools get github.list_issues",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runToolsGet(cmd.Context(), args[0], category) },
	}
	c.Flags().StringVar(&category, "category", "", "category of the tool: `CATEGORY`")
	return a.ofTenant(c)
}

func (a *app) toolsForgetCommand() *cobra.Command {
	return a.ofTenant(&cobra.Command{
		Use: "forget", Short: "Delete what searches have learned from the use of tools",
		Long: `Forget deletes the records of a tenant that make a tool rank higher in searches like those after
which it was called. A daemon that runs uses deleted records for up to ten seconds.`,
		Example: "  sandpiper tools forget --tenant acme",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runToolsForget(cmd.Context()) },
	})
}

func (a *app) runToolsForget(ctx context.Context) error {
	return a.withHome(ctx, func(home *home.Home) error {
		f, err := home.ForgetSearches(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.writeJSON(struct {
				Success bool `json:"success"`
				learned.Forgotten
			}{true, f})
		}
		if f.Records == 0 {
			a.printf("Nothing was stored.\n")
			return nil
		}
		a.printf("Deleted %s of %s.\n", count(f.Records, "record"), count(f.Uses, "use"))
		return nil
	})
}

func (a *app) runToolsSearch(ctx context.Context, q lookup.Query) error {
	count := 0
	unlisted, err := a.withToolsAndUnlisted(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := a.acquire(ctx, d)
		if err != nil {
			return err
		}
		defer home.Release(context.WithoutCancel(ctx))
		q.Listed = true
		found, err := lookup.WithShapes(d.Find.WithSkills(home.Skills).WithUses(home.Learned), home.Shapes).Answer(ctx, q)
		if err != nil {
			return err
		}
		switch found := found.(type) {
		case lookup.Brief:
			count = found.Count
		case lookup.Found:
			count = found.Count
		}
		if f, ok := found.(lookup.Found); ok && a.jsonLines {
			return writeList(a, "tools", f.Tools)
		}
		if a.json {
			return a.writeJSON(found)
		}
		switch found := found.(type) {
		case lookup.Brief:
			a.printBrief(found)
		case lookup.Found:
			a.printFound(found)
		}
		return nil
	})
	if err == nil && unlisted > 0 && count == 0 {
		return exit(exitFailed) // a server that was not searched may have the tool
	}
	return err
}

func (a *app) printBrief(found lookup.Brief) {
	more := found.Count
	for _, g := range found.Servers {
		a.printf("%s\n", visibleName(g.Module))
		for _, line := range g.Lines {
			a.printf("    %s\n", visibleName(line))
		}
		more -= len(g.Lines)
	}
	a.printRest(found.Count, more, found.Hint)
}

func (a *app) printFound(found lookup.Found) {
	for _, t := range found.Tools {
		a.printf("%s\n", strings.TrimRight(visibleName(t.Server+"."+t.Name)+"  "+visibleName(t.Description), " "))
		for _, line := range []string{t.Import, t.Signature} {
			if line != "" {
				a.printf("    %s\n", visibleName(line))
			}
		}
		if e := t.Explanation; e != nil {
			a.printf("    score %.3f: use %+.3f, similar searches %+.3f", e.Score, e.Used, e.Words)
			if len(e.Terms) > 0 {
				a.printf(" (%s)", visibleName(strings.Join(e.Terms, " ")))
			}
			a.printf("\n")
		}
	}
	a.printRest(found.Count, found.Count-len(found.Tools), found.Hint)
}

func (a *app) printRest(count, more int, hint string) {
	switch {
	case count == 0:
		a.printf("nothing found: %s\n", hint)
	case hint != "":
		a.printf("%s\n", hint)
	case more > 0:
		a.printf("… %d more\n", more)
	}
}

func (a *app) runToolsGet(ctx context.Context, name, category string) error {
	return a.withTools(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := a.acquire(ctx, d)
		if err != nil {
			return err
		}
		defer home.Release(context.WithoutCancel(ctx))
		t, err := d.Find.WithSkills(home.Skills).Define(ctx, home.Shapes, name, category)
		if err != nil {
			return err
		}
		if a.json {
			return a.writeJSON(t)
		}
		for _, line := range []string{t.Import, t.Signature, t.Example, t.Quarantined, t.Connect} {
			if line != "" {
				a.printf("%s\n", visibleName(line))
			}
		}
		a.printf("\n%s\n", visible(t.Description))
		return nil
	})
}

func (a *app) runToolsCategories(ctx context.Context) error {
	return a.withTools(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		c := d.Find.Categories()
		if a.json {
			return a.writeJSON(c)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Categories)) {
			of := c.Categories[name]
			a.printf("%-16s %5d  %s\n", visibleName(name), of.Tools, visibleName(of.Description))
		}
		return nil
	})
}
