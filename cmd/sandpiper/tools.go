package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/learned"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

func toolsCommand(env *cli.Env) *cobra.Command {
	return cli.Group("tools", "Search and manage the tools of connected MCP servers",
		toolsListCommand(env),
		toolsSearchCommand(env),
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
	)
}

func toolsSearchCommand(env *cli.Env) *cobra.Command {
	var q lookup.Query
	c := &cobra.Command{
		Use: "search [QUERY...]", Short: "Find tools by what they do",
		Long: `Search searches the tools of all servers, handwritten modules and saved skills. Topics between commas, or in
arguments with quotes, are searched one by one; the best tool for each comes first. Search first lists the tools of servers whose
tools have never been listed, and warns if that was not possible for one. It exits with 1 if it then
found nothing.`,
		Example: "  sandpiper tools search create an issue\n  sandpiper tools search 'list orders' 'exchange rates'\n  sandpiper tools " +
			"search --explain create an issue\n  sandpiper tools search --category dev",
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Text = strings.Join(args, " "); slices.ContainsFunc(args,
				func(a string) bool { return strings.Contains(strings.TrimSpace(a), " ") }) {
				q.Text = lookup.JoinTopics(args...) // quoted: each is a topic
			}
			return runToolsSearch(cmd.Context(), env, q)
		},
	}
	c.Flags().StringVar(&q.Category, "category", "", "only tools of `CATEGORY`")
	cli.EnumFlag(c.Flags(), &q.Detail, "detail", lookup.Summary, "`LEVEL` of detail: brief, name, summary or full", "brief", "name",
		"summary", "full")
	c.Flags().BoolVar(&q.Explain, "explain", false, "show the score of each tool, and what it gains from use by the tenant")
	c.Flags().IntVar(&q.Limit, "max", 0, "at most `N` tools (default 10, and 20 with --detail brief)")
	return cli.OfTenant(env, c)
}

func toolsGetCommand(env *cli.Env) *cobra.Command {
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
	return cli.OfTenant(env, c)
}

func toolsForgetCommand(env *cli.Env) *cobra.Command {
	return cli.OfTenant(env, &cobra.Command{
		Use: "forget", Short: "Delete what searches have learned from the use of tools",
		Long: `Forget deletes the records of a tenant that make a tool rank higher in searches like those after
which it was called. A daemon that runs uses deleted records for up to ten seconds.`,
		Example: "  sandpiper tools forget --tenant acme",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runToolsForget(cmd.Context(), env) },
	})
}

func runToolsForget(ctx context.Context, env *cli.Env) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		f, err := home.ForgetSearches(ctx)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(struct {
				Success bool `json:"success"`
				learned.Forgotten
			}{true, f})
		}
		if f.Records == 0 {
			env.Printf("Nothing was stored.\n")
			return nil
		}
		env.Printf("Deleted %s of %s.\n", cli.Count(f.Records, "record"), cli.Count(f.Uses, "use"))
		return nil
	})
}

func runToolsSearch(ctx context.Context, env *cli.Env, q lookup.Query) error {
	count := 0
	unlisted, err := cli.WithToolsAndUnlisted(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := cli.Acquire(ctx, env, d)
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
		if f, ok := found.(lookup.Found); ok && env.JSONLines {
			return cli.WriteList(env, "tools", f.Tools)
		}
		if env.JSON {
			return env.WriteJSON(found)
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
		return cli.Exit(cli.ExitFailed) // a server that was not searched may have the tool
	}
	return err
}

func printBrief(env *cli.Env, found lookup.Brief) {
	more := found.Count
	for _, g := range found.Servers {
		env.Printf("%s\n", cli.VisibleName(g.Module))
		for _, line := range g.Lines {
			env.Printf("    %s\n", cli.VisibleName(line))
		}
		more -= len(g.Lines)
	}
	printRest(env, found.Count, more, found.Hint)
}

func printFound(env *cli.Env, found lookup.Found) {
	for _, t := range found.Tools {
		env.Printf("%s\n", strings.TrimRight(cli.VisibleName(t.Server+"."+t.Name)+"  "+cli.VisibleName(t.Description), " "))
		for _, line := range []string{t.Import, t.Signature} {
			if line != "" {
				env.Printf("    %s\n", cli.VisibleName(line))
			}
		}
		if e := t.Explanation; e != nil {
			env.Printf("    score %.3f: use %+.3f, similar searches %+.3f", e.Score, e.Used, e.Words)
			if len(e.Terms) > 0 {
				env.Printf(" (%s)", cli.VisibleName(strings.Join(e.Terms, " ")))
			}
			env.Printf("\n")
		}
	}
	printRest(env, found.Count, found.Count-len(found.Tools), found.Hint)
}

func printRest(env *cli.Env, count, more int, hint string) {
	switch {
	case count == 0:
		env.Printf("nothing found: %s\n", hint)
	case hint != "":
		env.Printf("%s\n", hint)
	case more > 0:
		env.Printf("… %d more\n", more)
	}
}

func runToolsGet(ctx context.Context, env *cli.Env, name, category string) error {
	return cli.WithTools(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := cli.Acquire(ctx, env, d)
		if err != nil {
			return err
		}
		defer home.Release(context.WithoutCancel(ctx))
		t, err := d.Find.WithSkills(home.Skills).Define(ctx, home.Shapes, name, category)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(t)
		}
		for _, line := range []string{t.Import, t.Signature, t.Example, t.Quarantined, t.Connect} {
			if line != "" {
				env.Printf("%s\n", cli.VisibleName(line))
			}
		}
		env.Printf("\n%s\n", cli.Visible(t.Description))
		return nil
	})
}

func runToolsCategories(ctx context.Context, env *cli.Env) error {
	return cli.WithTools(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		c := d.Find.Categories()
		if env.JSON {
			return env.WriteJSON(c)
		}
		for _, name := range slices.Sorted(maps.Keys(c.Categories)) {
			of := c.Categories[name]
			env.Printf("%-16s %5d  %s\n", cli.VisibleName(name), of.Tools, cli.VisibleName(of.Description))
		}
		return nil
	})
}
