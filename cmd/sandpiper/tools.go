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

func toolsCommand(env *app) *cobra.Command {
	return group("tools", "Search and manage the tools of connected MCP servers",
		toolsListCommand(env),
		toolsSearchCommand(env),
		toolsSelectCommand(env),
		toolsGetCommand(env),
		&cobra.Command{
			Use: "categories", Short: "List categories of tools",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runToolsCategories(cmd.Context(), env) },
		},
		&cobra.Command{
			Use: "sync [SERVER...]", Short: "List the tools of servers again, and report their state",
			Long: `Sync lists the tools of the given servers, or of all, and stores the definitions, so
that search, definitions and modules work while the servers are not running. It waits
for servers to start, each for its start_timeout (60s), and exits with 1 if one did
not start. A tool whose definition changed since it was trusted is quarantined until
it is accepted.`,
			RunE: func(cmd *cobra.Command, args []string) error { return runToolsSync(cmd.Context(), env, args) },
		},
		toolsCallCommand(env),
		toolsAcceptCommand(env),
		toolsForgetCommand(env),
		toolsLoginCommand(env),
		toolsLogoutCommand(env),
	)
}

func toolsSearchCommand(env *app) *cobra.Command {
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
			return runToolsSearch(cmd.Context(), env, q)
		},
	}
	c.Flags().StringVar(&q.Category, "category", "", "only tools of `CATEGORY`")
	enumFlag(c.Flags(), &q.Detail, "detail", lookup.Summary, "`LEVEL` of detail: brief, name, summary or full", "brief", "name", "summary", "full")
	c.Flags().BoolVar(&q.Explain, "explain", false, "show the score of each tool, and what it gains from use by the tenant")
	c.Flags().IntVar(&q.Limit, "max", 0, "at most `N` tools (default 10, and 20 with --detail brief)")
	return ofTenant(env, c)
}

func toolsGetCommand(env *app) *cobra.Command {
	var category string
	c := &cobra.Command{
		Use: "get TOOL", Short: "Print the definition of a tool",
		Example: "  sandpiper tools get github.list_issues",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runToolsGet(cmd.Context(), env, args[0], category)
		},
	}
	c.Flags().StringVar(&category, "category", "", "category of the tool: `CATEGORY`")
	return ofTenant(env, c)
}

func toolsForgetCommand(env *app) *cobra.Command {
	return ofTenant(env, &cobra.Command{
		Use: "forget", Short: "Delete what searches have learned from the use of tools",
		Long: `Forget deletes the records of a tenant that make a tool rank higher in searches like those after
which it was called. A daemon that runs uses deleted records for up to ten seconds.`,
		Example: "  sandpiper tools forget --tenant acme",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runToolsForget(cmd.Context(), env) },
	})
}

func runToolsForget(ctx context.Context, env *app) error {
	return withHome(ctx, env, func(home *home.Home) error {
		f, err := home.ForgetSearches(ctx)
		if err != nil {
			return err
		}
		if env.json {
			return env.writeJSON(struct {
				Success bool `json:"success"`
				learned.Forgotten
			}{true, f})
		}
		if f.Records == 0 {
			env.printf("Nothing was stored.\n")
			return nil
		}
		env.printf("Deleted %s of %s.\n", count(f.Records, "record"), count(f.Uses, "use"))
		return nil
	})
}

func runToolsSearch(ctx context.Context, env *app, q lookup.Query) error {
	count := 0
	unlisted, err := withToolsAndUnlisted(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := acquire(ctx, env, d)
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
		if f, ok := found.(lookup.Found); ok && env.jsonLines {
			return writeList(env, "tools", f.Tools)
		}
		if env.json {
			return env.writeJSON(found)
		}
		switch found := found.(type) {
		case lookup.Brief:
			printBrief(env, found)
		case lookup.Found:
			printFound(env, found)
		}
		return nil
	})
	if err == nil && unlisted > 0 && count == 0 {
		return exit(exitFailed) // a server that was not searched may have the tool
	}
	return err
}

func printBrief(env *app, found lookup.Brief) {
	more := found.Count
	for _, g := range found.Servers {
		env.printf("%s\n", visibleName(g.Module))
		for _, line := range g.Lines {
			env.printf("    %s\n", visibleName(line))
		}
		more -= len(g.Lines)
	}
	printRest(env, found.Count, more, found.Hint)
}

func printFound(env *app, found lookup.Found) {
	for _, t := range found.Tools {
		env.printf("%s\n", strings.TrimRight(visibleName(t.Server+"."+t.Name)+"  "+visibleName(t.Description), " "))
		for _, line := range []string{t.Import, t.Signature} {
			if line != "" {
				env.printf("    %s\n", visibleName(line))
			}
		}
		if e := t.Explanation; e != nil {
			env.printf("    score %.3f: use %+.3f, similar searches %+.3f", e.Score, e.Used, e.Words)
			if len(e.Terms) > 0 {
				env.printf(" (%s)", visibleName(strings.Join(e.Terms, " ")))
			}
			env.printf("\n")
		}
	}
	printRest(env, found.Count, found.Count-len(found.Tools), found.Hint)
}

func printRest(env *app, count, more int, hint string) {
	switch {
	case count == 0:
		env.printf("nothing found: %s\n", hint)
	case hint != "":
		env.printf("%s\n", hint)
	case more > 0:
		env.printf("… %d more\n", more)
	}
}

func runToolsGet(ctx context.Context, env *app, name, category string) error {
	return withTools(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := acquire(ctx, env, d)
		if err != nil {
			return err
		}
		defer home.Release(context.WithoutCancel(ctx))
		t, err := d.Find.WithSkills(home.Skills).Define(ctx, home.Shapes, name, category)
		if err != nil {
			return err
		}
		if env.json {
			return env.writeJSON(t)
		}
		for _, line := range []string{t.Import, t.Signature, t.Example, t.Quarantined, t.Connect} {
			if line != "" {
				env.printf("%s\n", visibleName(line))
			}
		}
		env.printf("\n%s\n", visible(t.Description))
		return nil
	})
}

func runToolsCategories(ctx context.Context, env *app) error {
	return withTools(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		c := d.Find.Categories()
		if env.json {
			return env.writeJSON(c)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Categories)) {
			of := c.Categories[name]
			env.printf("%-16s %5d  %s\n", visibleName(name), of.Tools, visibleName(of.Description))
		}
		return nil
	})
}
