package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func toolsListCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list [SERVER...]", Short: "List the tools of servers",
		Long: `List lists the tools of the given servers, or of all, as they were last listed; sync asks
the servers again. It first lists the tools of servers whose tools have never been listed.`,
		Example: "  sandpiper tools list\n  sandpiper tools list github --json-lines",
		RunE:    func(cmd *cobra.Command, args []string) error { return runToolsList(cmd.Context(), env, args) },
	}
}

type listedTool struct {
	Server      string `json:"server"`
	Name        string `json:"name"`
	Description string `json:"description"`
	State       string `json:"state,omitempty"` // why it cannot be called; empty if it can
}

func runToolsList(ctx context.Context, env *cli.Env, servers []string) error {
	return withTools(ctx, env, func(_ *daemon.Daemon, now *catalog.Snapshot) error {
		for _, name := range servers {
			if s, ok := now.Server(name); !ok || s.Name != name {
				return now.NotConfigured(name)
			}
		}
		var all []listedTool
		for _, t := range now.Tools {
			if len(servers) == 0 || slices.Contains(servers, t.Server) {
				all = append(all, listedTool{t.Server, t.Definition.Tool, t.Description, toolState(t)})
			}
		}
		if env.JSON {
			return cli.WriteList(env, "tools", append([]listedTool{}, all...))
		}
		if len(now.Servers) == 0 {
			env.PrintEmpty(0, "no server is configured; add one with `sandpiper servers add`")
		} else {
			env.PrintEmpty(len(all), "no tool was listed; `sandpiper servers list` prints the state of the servers")
		}
		for _, t := range all {
			text, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
			if t.State != "" {
				text = strings.TrimSpace("(" + t.State + ") " + text)
			}
			env.Printf("%s\n", strings.TrimSpace(cli.Fit(cli.VisibleName(t.Server+"."+t.Name+"  "+text), 120)))
		}
		return nil
	})
}

// toolState returns why a tool cannot be called, or "".
func toolState(t catalog.Tool) string {
	switch {
	case t.New:
		return "waiting for review"
	case t.Quarantined != nil:
		return "quarantined"
	case !t.Connected:
		return "not connected"
	}
	return ""
}

// withTools calls f with a daemon and its catalog. It first lists the tools of servers
// whose tools have never been listed.
func withTools(ctx context.Context, env *cli.Env, f func(*daemon.Daemon, *catalog.Snapshot) error) error {
	_, err := withToolsAndUnlisted(ctx, env, f)
	return err
}

// withToolsAndUnlisted is like withTools. It also returns the number of servers whose tools
// could not be listed.
func withToolsAndUnlisted(ctx context.Context, env *cli.Env, f func(*daemon.Daemon, *catalog.Snapshot) error) (unlisted int, err error) {
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	var names []string
	for _, s := range d.Servers.Catalog.Now().Servers {
		if s.Connected && s.Listed.IsZero() {
			names = append(names, s.Name)
		}
	}
	all := toolsOfServers(ctx, env, d, names)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].err; err != nil {
			unlisted++
			env.Warn(fault.Message(err))
		}
	}
	return unlisted, f(d, d.Servers.Catalog.Now())
}

// listResult is the result of listing one server.
type listResult struct {
	change catalog.Change
	err    error
}

// listServers lists the tools of servers concurrently. On a terminal it shows the names of the
// servers for which it still waits.
func toolsOfServers(ctx context.Context, env *cli.Env, d *daemon.Daemon, names []string) map[string]listResult {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[string]listResult{}
	for _, name := range names {
		wg.Go(func() {
			change, err := d.Servers.List(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			all[name] = listResult{change, withoutRetry(err)}
		})
	}
	defer env.WorkingOn(func() string {
		mu.Lock()
		defer mu.Unlock()
		waiting := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { _, ok := all[name]; return ok })
		return "waiting for " + strings.Join(waiting, ", ")
	})()
	wg.Wait()
	return all
}

// withoutRetry removes the time of the next attempt, which a command that ends does not make.
func withoutRetry(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	changed := *e
	changed.Message, _, _ = strings.Cut(e.Message, "; the next attempt is in ")
	return &changed
}

// changeSummary describes the difference between the old and the new list of tools, with
// "; " before each part.
func changeSummary(c catalog.Change) string {
	text := ""
	for _, part := range []struct {
		label string
		names []string
	}{{"new", c.Added}, {"removed", c.Removed}, {"quarantined", c.Quarantined}} {
		if n := len(part.names); n > 0 {
			some := part.names[:min(5, n)]
			text += "; " + part.label + ": " + cli.VisibleName(strings.Join(some, ", "))
			if n > len(some) {
				text += " …"
			}
		}
	}
	return text
}
