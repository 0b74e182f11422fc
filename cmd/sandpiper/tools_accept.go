package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func (a *app) toolsAcceptCommand() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use: "accept SERVER [TOOL...]", Short: "Trust the new definitions of tools that changed",
		Long: `A tool whose description or schema changes is quarantined: it cannot be called until
you accept it, because a server could attack a model with a changed description.
Without TOOL and --all, accept shows the changes and accepts nothing.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runToolsAccept(cmd.Context(), args[0], args[1:], all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "accept all quarantined tools of the server")
	return c
}

func (a *app) runToolsAccept(ctx context.Context, server string, names []string, all bool) error {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if len(names) == 0 && !all {
		return a.showQuarantined(d.Servers.Catalog.Now(), server)
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
		a.printf("no tool of %s is quarantined\n", visibleName(server))
	}
	return nil
}

// showQuarantined prints the definitions of quarantined tools before and after the change.
func (a *app) showQuarantined(now *catalog.Snapshot, server string) error {
	if _, ok := now.Server(server); !ok {
		return fault.New(fault.NotFound, "there is no server %q", server)
	}
	type change struct {
		Tool          string          `json:"tool"`
		Before, After tool.Definition `json:"-"`
		Old           json.RawMessage `json:"before"`
		New           json.RawMessage `json:"after"`
	}
	quarantined := []change{}
	for _, t := range now.Of(server) {
		if t.Quarantined != nil {
			c := change{Tool: t.Definition.Tool, Before: t.Definition, After: *t.Quarantined}
			c.Old, _ = json.Marshal(c.Before)
			c.New, _ = json.Marshal(c.After)
			quarantined = append(quarantined, c)
		}
	}
	if a.json {
		return a.writeJSON(map[string]any{"server": server, "held": quarantined})
	}
	for _, c := range quarantined {
		a.printf("%s.%s\n", visibleName(server), visibleName(c.Tool))
		a.printChange("description", c.Before.Description, c.After.Description)
		a.printChange("input", string(c.Before.Input), string(c.After.Input))
		a.printChange("output", string(c.Before.Output), string(c.After.Output))
		a.printChange("title", c.Before.Title, c.After.Title)
	}
	if len(quarantined) == 0 {
		a.printf("no tool of %s is quarantined\n", visibleName(server))
		return nil
	}
	a.printf("accept tools by name, or all with --all\n")
	return nil
}

func (a *app) printChange(field, before, after string) {
	if before != after {
		a.printf("  %s was: %s\n  %s is:  %s\n", field, visibleName(before), field, visibleName(after))
	}
}
