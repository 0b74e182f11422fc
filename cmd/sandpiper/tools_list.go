package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
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
	return cli.WithTools(ctx, env, func(_ *daemon.Daemon, now *catalog.Snapshot) error {
		for _, name := range servers {
			if s, ok := now.Server(name); !ok || s.Name != name {
				return now.Disabled.NotConfigured(name)
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
