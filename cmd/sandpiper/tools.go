package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

func (a *app) toolsCommand() *cobra.Command {
	return group("tools", "Look at the tools of connected MCP servers",
		a.toolsSearchCommand(),
		a.toolsGetCommand(),
		&cobra.Command{
			Use: "categories", Short: "List categories of tools",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runToolsCategories(cmd.Context()) },
		},
		&cobra.Command{
			Use: "sync [SERVER...]", Short: "Ask servers for their tools, and say how they are",
			Long: `Sync asks servers, or all of them, for their tools and keeps what they say, so that
search, definitions and modules work while they do not run. It waits for servers that
are starting, each for its start_timeout (60s), and exits with 1 if one did not start.
A tool whose definition changed since it was trusted is held until it is accepted.`,
			RunE: func(cmd *cobra.Command, args []string) error { return a.runToolsSync(cmd.Context(), args) },
		},
		a.toolsAcceptCommand(),
		a.toolsLoginCommand(),
		a.toolsLogoutCommand(),
	)
}

func (a *app) toolsSearchCommand() *cobra.Command {
	var q lookup.Query
	c := &cobra.Command{
		Use: "search [QUERY...]", Short: "Find tools by what they do",
		Long: `Search finds tools of all servers. It first asks servers that never said which tools
they have, waits for them to start, and exits with 1 if one did not start.`,
		Example: "  sandpiper tools search create an issue\n  sandpiper tools search --category dev",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			return a.runToolsSearch(cmd.Context(), q)
		},
	}
	c.Flags().StringVar(&q.Category, "category", "", "only tools of `CATEGORY`")
	c.Flags().StringVar(&q.Detail, "detail", lookup.Summary, "`LEVEL` of detail: name, summary or full")
	c.Flags().IntVar(&q.Limit, "max", 10, "at most `N` tools")
	return c
}

func (a *app) toolsGetCommand() *cobra.Command {
	var category string
	c := &cobra.Command{
		Use: "get TOOL", Short: "Print all that is known of a tool",
		Example: "  sandpiper tools get github.list_issues",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runToolsGet(cmd.Context(), args[0], category) },
	}
	c.Flags().StringVar(&category, "category", "", "of `CATEGORY`")
	return a.ofTenant(c)
}

func (a *app) toolsAcceptCommand() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use: "accept SERVER [TOOL...]", Short: "Trust the new definitions of tools that changed",
		Long: `A tool whose description or schema changes is held: it cannot be called until you
accept it, because a changed description is how a server attacks a model. Without
TOOL and --all, accept shows what changed and accepts nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runToolsAccept(cmd.Context(), args[0], args[1:], all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "accept all tools of the server that are held")
	return c
}

// tools runs f with a daemon that knows what the servers offer: those that never
// were listed are asked first, and waited for.
func (a *app) tools(ctx context.Context, f func(*daemon.Daemon, *catalog.Snapshot) error) error {
	_, err := a.toolsOrMissing(ctx, f)
	return err
}

// toolsOrMissing is tools, and counts the servers that did not start.
func (a *app) toolsOrMissing(ctx context.Context, f func(*daemon.Daemon, *catalog.Snapshot) error) (missing int, err error) {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	var unknown []string
	for _, s := range d.Servers.Catalog.Now().Servers {
		if s.Connected && s.Listed.IsZero() {
			unknown = append(unknown, s.Name)
		}
	}
	all := a.list(ctx, d, unknown)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].err; err != nil {
			missing++
			a.warn(fault.Message(err))
		}
	}
	return missing, f(d, d.Servers.Catalog.Now())
}

// listed is what came of asking one server.
type listed struct {
	change catalog.Change
	err    error
}

// list asks servers for their tools, all at once, and says on the way which of them
// it waits for.
func (a *app) list(ctx context.Context, d *daemon.Daemon, names []string) map[string]listed {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[string]listed{}
	for _, name := range names {
		wg.Go(func() {
			change, err := d.Servers.List(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			all[name] = listed{change, err}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	began, tick := time.Now(), time.NewTicker(tellWaiting)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return all
		case <-tick.C:
			mu.Lock()
			waiting := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { _, ok := all[name]; return ok })
			mu.Unlock()
			line := fmt.Sprintf("waiting for %s to start (%s)", visibleName(strings.Join(waiting, ", ")), time.Since(began).Round(time.Second))
			fmt.Fprintln(a.stderr, styleFor(a.stderr).dim(line))
		}
	}
}

// tellWaiting is how often a command says that it waits for servers.
const tellWaiting = 3 * time.Second

func (a *app) runToolsSearch(ctx context.Context, q lookup.Query) error {
	missing, err := a.toolsOrMissing(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		found, err := d.Find.Search(ctx, q)
		if err != nil {
			return err
		}
		if a.json {
			return a.writeJSON(found)
		}
		for _, t := range found.Tools {
			a.printf("%s\n", strings.TrimRight(visibleName(t.Server+"."+t.Name)+"  "+visibleName(t.Description), " "))
			if t.Signature != "" {
				a.printf("    %s\n    %s\n", visibleName(t.Import), visibleName(t.Signature))
			}
		}
		switch {
		case found.Hint != "":
			a.printf("nothing found: %s\n", found.Hint)
		case found.Count > len(found.Tools):
			a.printf("… %d more\n", found.Count-len(found.Tools))
		}
		return nil
	})
	if err == nil && missing > 0 {
		return exit(exitFailed) // what was searched is not all that is configured
	}
	return err
}

func (a *app) runToolsGet(ctx context.Context, name, category string) error {
	return a.tools(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		home, err := a.acquire(ctx, d)
		if err != nil {
			return err
		}
		defer home.Release(context.WithoutCancel(ctx))
		t, err := d.Find.Define(ctx, home.Shapes, name, category)
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
	return a.tools(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
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

func (a *app) runToolsSync(ctx context.Context, names []string) error {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	now := d.Servers.Catalog.Now()
	for _, name := range names {
		if s, ok := now.Server(name); !ok || s.Name != name || !s.Connected {
			return fault.New(fault.NotFound, "there is no server %q in the configuration", name)
		}
	}
	if len(names) == 0 {
		for _, s := range now.Servers {
			if s.Connected {
				names = append(names, s.Name)
			}
		}
	}
	all := a.list(ctx, d, names)
	waitForModel(ctx, d)
	servers := d.Find.Servers()
	if err := a.showSync(servers, all); err != nil {
		return err
	}
	for _, of := range all {
		if of.err != nil {
			return exit(exitFailed)
		}
	}
	return nil
}

// showSync prints what came of asking servers.
func (a *app) showSync(servers lookup.Servers, all map[string]listed) error {
	if a.json {
		return a.writeJSON(servers)
	}
	for _, s := range servers.Servers {
		of, asked := all[s.Name]
		if !asked {
			continue
		}
		if of.err != nil {
			a.printf("%-20s failed: %s\n", visibleName(s.Name), visibleName(errorText(of.err)))
			for _, line := range s.Stderr {
				a.printf("%-20s | %s\n", "", visibleName(line))
			}
			continue
		}
		a.printf("%-20s %d tools%s\n", visibleName(s.Name), s.Tools, changes(of.change))
	}
	if m := servers.SemanticSearch; m != nil {
		a.printf("%d of %d tools are found by meaning with %s\n", m.Known, m.Tools, visibleName(m.Model))
		if m.Reason != "" {
			a.printf("%-20s %s; %s\n", "", visible(m.Reason), visible(m.Hint))
		}
	}
	return nil
}

// waitForModel waits until a model, if there is one, has read all tools or cannot.
func waitForModel(ctx context.Context, d *daemon.Daemon) {
	if d.Meaning == nil {
		return
	}
	all := len(d.Servers.Catalog.Now().Tools)
	for s := d.Meaning.State(); s.Known < all && s.Reason == ""; s = d.Meaning.State() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// changes says what is different from what was known.
func changes(c catalog.Change) string {
	text := ""
	for _, part := range []struct {
		what  string
		names []string
	}{{"new", c.Added}, {"gone", c.Removed}, {"held, since they changed", c.Quarantined}} {
		if n := len(part.names); n > 0 {
			some := part.names[:min(5, n)]
			text += "; " + part.what + ": " + visibleName(strings.Join(some, ", "))
			if n > len(some) {
				text += " …"
			}
		}
	}
	return text
}

func (a *app) runToolsAccept(ctx context.Context, server string, names []string, all bool) error {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if len(names) == 0 && !all {
		return a.showHeld(d.Servers.Catalog.Now(), server)
	}
	accepted, err := d.Servers.Accept(ctx, server, names...)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(map[string]any{"success": true, "accepted": append([]string{}, accepted...)})
	}
	for _, name := range accepted {
		a.printf("accepted %s.%s\n", visibleName(server), visibleName(name))
	}
	if len(accepted) == 0 {
		a.printf("nothing to accept: no tool of %s is held\n", visibleName(server))
	}
	return nil
}

// showHeld shows what changed, before and after.
func (a *app) showHeld(now *catalog.Snapshot, server string) error {
	if _, ok := now.Server(server); !ok {
		return fault.New(fault.NotFound, "there is no server %q", server)
	}
	type change struct {
		Tool          string          `json:"tool"`
		Before, After tool.Definition `json:"-"`
		Old           json.RawMessage `json:"before"`
		New           json.RawMessage `json:"after"`
	}
	held := []change{}
	for _, t := range now.Of(server) {
		if t.Quarantined != nil {
			c := change{Tool: t.Definition.Tool, Before: t.Definition, After: *t.Quarantined}
			c.Old, _ = json.Marshal(c.Before)
			c.New, _ = json.Marshal(c.After)
			held = append(held, c)
		}
	}
	if a.json {
		return a.writeJSON(map[string]any{"server": server, "held": held})
	}
	for _, c := range held {
		a.printf("%s.%s\n", visibleName(server), visibleName(c.Tool))
		a.difference("description", c.Before.Description, c.After.Description)
		a.difference("input", string(c.Before.Input), string(c.After.Input))
		a.difference("output", string(c.Before.Output), string(c.After.Output))
		a.difference("title", c.Before.Title, c.After.Title)
	}
	if len(held) == 0 {
		a.printf("no tool of %s is held\n", visibleName(server))
		return nil
	}
	a.printf("accept them by name, or all with --all\n")
	return nil
}

func (a *app) difference(what, before, after string) {
	if before != after {
		a.printf("  %s was: %s\n  %s is:  %s\n", what, visibleName(before), what, visibleName(after))
	}
}
