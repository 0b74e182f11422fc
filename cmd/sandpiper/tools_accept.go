package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func (a *app) toolsAcceptCommand() *cobra.Command {
	all := false
	c := &cobra.Command{
		Use: "accept SERVER [TOOL...]", Short: "Trust the definitions of tools that are new or changed",
		Long: `A tool whose description or schema changes is quarantined: it cannot be called until
you accept it, because a server could attack a model with a changed description. So is
every new tool of a server with review: true. Without TOOL and --all, accept shows the
definitions, with text that reads like instructions to a model, and accepts nothing.`,
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
	held, _ := d.Servers.Catalog.Now().Server(server)
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
	switch {
	case all && (held.Held != nil || held.Unreviewed):
		a.printf("accepted the title, instructions, resources and prompts of %s\n", visibleName(server))
	case len(accepted) == 0:
		a.printf("no tool of %s is quarantined\n", visibleName(server))
	}
	return nil
}

// showQuarantined prints the definitions of quarantined tools before and after the change.
func (a *app) showQuarantined(now *catalog.Snapshot, server string) error {
	if _, ok := now.Server(server); !ok {
		return fault.New(fault.NotFound, "there is no server %q", server)
	}
	quarantined := []change{}
	for _, t := range now.Of(server) {
		if t.Quarantined != nil {
			quarantined = append(quarantined, newChange(t))
		}
	}
	v, _ := now.Server(server)
	if a.json {
		return a.writeJSON(map[string]any{"server": server, "held": quarantined, "texts": v.Held})
	}
	for _, c := range quarantined {
		a.printf("%s.%s%s\n", visibleName(server), visibleName(c.Tool), map[bool]string{true: " (new)"}[c.IsNew])
		a.printChange("description", c.Before.Description, c.After.Description)
		a.printChange("input", c.input(), string(c.After.Input))
		a.printChange("output", string(c.Before.Output), string(c.After.Output))
		a.printChange("title", c.Before.Title, c.After.Title)
		a.printSuspected(c.Suspected)
	}
	if v.Held != nil {
		a.printf("%s, with --all\n", visibleName(server))
		a.printChange("title", v.Title, v.Held.Title)
		a.printChange("instructions", v.Instructions, v.Held.Instructions)
		a.printSuspected(suspectedIn(v.Held.Title, v.Held.Instructions))
	}
	switch {
	case len(quarantined) == 0 && v.Held == nil && !v.Unreviewed:
		a.printf("no tool of %s is quarantined\n", visibleName(server))
	case v.Unreviewed:
		a.printf("accept tools by name, or all with --all, which also allows its resources and prompts\n")
	default:
		a.printf("accept tools by name, or all with --all\n")
	}
	return nil
}

// change is a quarantined tool.
type change struct {
	Tool          string          `json:"tool"`
	IsNew         bool            `json:"new,omitempty"`
	Before, After tool.Definition `json:"-"`
	Old           json.RawMessage `json:"before,omitempty"`
	New           json.RawMessage `json:"after"`
	Suspected     []suspicion     `json:"suspected_injection,omitempty"`
}

func newChange(t catalog.Tool) change {
	c := change{Tool: t.Definition.Tool, IsNew: t.New, Before: t.Definition, After: *t.Quarantined}
	if !t.New {
		c.Old, _ = json.Marshal(c.Before)
	}
	c.New, _ = json.Marshal(c.After)
	c.Suspected = suspectedIn(c.After.Tool, c.After.Title, c.After.Description, string(c.After.Input), string(c.After.Output))
	return c
}

// input is the input schema before the change; a new tool had none.
func (c change) input() string {
	if c.IsNew {
		return ""
	}
	return string(c.Before.Input)
}

// suspicion is text that reads like instructions to a model.
type suspicion struct {
	Kind string `json:"kind"` // see package guardrail
	Text string `json:"text"`
}

func suspectedIn(texts ...string) (all []suspicion) {
	for _, text := range texts {
		for _, i := range guardrail.FindInjections(text) {
			all = append(all, suspicion{i.Kind, text[i.Start:i.End]})
		}
	}
	return all
}

func (a *app) printSuspected(all []suspicion) {
	for _, s := range all {
		a.printf("  %s %s\n", styleFor(a.stdout).red("suspected injection ("+s.Kind+"):"), visibleName(s.Text))
	}
}

func (a *app) printChange(field, before, after string) {
	switch {
	case before == after:
	case before == "":
		a.printf("  %s: %s\n", field, visibleName(after))
	default:
		a.printf("  %s was: %s\n  %s is:  %s\n", field, visibleName(before), field, visibleName(after))
	}
}
