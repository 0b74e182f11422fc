package main

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

func runToolsSync(ctx context.Context, env *cli.Env, names []string) error {
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	now := d.Servers.Catalog.Now()
	for _, name := range names {
		if s, ok := now.Server(name); !ok || s.Name != name || !s.Connected {
			return now.Disabled.NotConfigured(name)
		}
	}
	if len(names) == 0 {
		for _, s := range now.Servers {
			if s.Connected {
				names = append(names, s.Name)
			}
		}
	}
	all := cli.ListTools(ctx, env, d, names)
	waitForModel(ctx, d)
	servers := d.Find.Servers()
	if err := showSync(env, servers, all); err != nil {
		return err
	}
	for _, of := range all {
		if of.Err != nil {
			return cli.Exit(cli.ExitFailed)
		}
	}
	return nil
}

// showSync prints the results of listing servers.
func showSync(env *cli.Env, servers lookup.Servers, all map[string]cli.Listed) error {
	if env.JSON {
		if env.JSONLines {
			return cli.WriteList(env, "servers", servers.Servers)
		}
		return env.WriteJSON(servers)
	}
	for _, s := range servers.Servers {
		of, requested := all[s.Name]
		if !requested {
			continue
		}
		if of.Err != nil {
			env.Printf("%-20s failed: %s\n", cli.VisibleName(s.Name), cli.VisibleName(fault.Sentence(of.Err)))
			if len(s.Stderr) > 3 { // the reason contains the last three lines
				for _, line := range s.Stderr {
					env.Printf("%-20s | %s\n", "", cli.VisibleName(line))
				}
			}
			continue
		}
		env.Printf("%-20s %s%s\n", cli.VisibleName(s.Name), cli.Count(s.Tools, "tool"), cli.ChangeSummary(of.Change))
		for _, note := range s.Notes {
			env.Printf("%-20s %s\n", "", cli.VisibleName(note))
		}
	}
	if m := servers.SemanticSearch; m != nil {
		env.Printf("semantic search: %d of %d tools are indexed with %s\n", m.Known, m.Tools, cli.VisibleName(m.Model))
		if m.Reason != "" {
			env.Printf("%-20s %s; %s\n", "", cli.Visible(m.Reason), cli.Visible(m.Hint))
		}
	}
	return nil
}

// waitForModel waits until the embedding model, if configured, has indexed all tools or
// has failed.
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
