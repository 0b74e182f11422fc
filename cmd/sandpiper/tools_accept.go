package main

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func toolsAcceptCommand(env *cli.Env) *cobra.Command {
	var o acceptOptions
	c := &cobra.Command{
		Use: "accept SERVER [TOOL...]", Short: "Trust the definitions of tools that are new or changed",
		Long: `A tool whose description or schema changes is quarantined: it cannot be called until
you accept it, because a server could attack a model with a changed description. So is
every new tool of a server with review: true.

Accept shows the definitions, with text that reads like instructions to a model, and
their hash. With TOOL or --all it then asks on a terminal whether to accept them;
elsewhere it needs the hash. Definitions that have changed since they were shown are
not accepted.`,
		Example: "  sandpiper tools accept github list_issues\n  sandpiper tools accept github --all --shown 3f1c2a9d5e7b8046",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args[1:]
			return runToolsAccept(cmd.Context(), env, args[0], o)
		},
	}
	c.Flags().BoolVar(&o.all, "all", false, "accept all quarantined tools of the server, and its texts, resources and prompts")
	c.Flags().StringVar(&o.shown, "shown", "", "accept them if they have `HASH`, which accept has shown")
	return c
}

// acceptOptions select what tools accept accepts.
type acceptOptions struct {
	names []string
	all   bool
	shown string
}

func runToolsAccept(ctx context.Context, env *cli.Env, server string, o acceptOptions) error {
	if o.all && len(o.names) > 0 {
		return cli.Usagef("--all and names of tools exclude each other")
	}
	only := len(o.names) == 0 && !o.all
	if only && o.shown != "" {
		return cli.Usagef("--shown needs --all or the names of the tools")
	}
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	now := d.Servers.Catalog.Now()
	of, ok := now.Server(server)
	if !ok {
		return now.Disabled.NotConfigured(server)
	}
	if of.Connected && of.Listed.IsZero() {
		return fault.New(fault.Unavailable, "server %q has not listed its tools yet, so that there is nothing to accept", server).
			WithHint("`sandpiper tools sync %s` lists them", server)
	}
	if o.shown == "" {
		pending, err := showQuarantined(env, now, server, o.names)
		if err != nil || only || !pending {
			return err
		}
		o.shown = now.Shown(server, o.names...)
		if env.JSON {
			return cli.Exit(cli.ExitFailed)
		}
		if !cli.IsTerminal(env.Stdin) {
			return fault.New(fault.Denied, "nothing was accepted: there is no terminal to ask whether these definitions are accepted").
				WithHint("accept them as shown with --shown %s", o.shown)
		}
		if !env.Confirm(ctx, false, "Accept these definitions of %s?", server) {
			return nil
		}
	}
	accepted, err := d.Servers.Accept(ctx, server, o.shown, o.names...)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "accepted": append([]string{}, accepted...)})
	}
	for _, name := range accepted {
		env.Printf("accepted %s.%s\n", cli.VisibleName(server), cli.VisibleName(name))
	}
	if o.all && (of.NewTexts != nil || of.Unreviewed) {
		env.Printf("accepted the title, instructions, resources and prompts of %s\n", cli.VisibleName(server))
	}
	return nil
}

// showQuarantined prints the definitions of quarantined tools before and after the change, and their
// hash. It reports whether there is anything to accept. Without names it shows all of a server.
func showQuarantined(env *cli.Env, now *catalog.Snapshot, server string, names []string) (pending bool, err error) {
	all, quarantined := now.Of(server), []change{}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t catalog.Tool) bool { return t.Definition.Tool == name }) {
			return false, fault.New(fault.NotFound, "server %q has no tool %q", server, name).
				WithHint("sandpiper tools accept %s shows its quarantined tools", server)
		}
	}
	for _, t := range all {
		if t.Quarantined != nil && (len(names) == 0 || slices.Contains(names, t.Definition.Tool)) {
			quarantined = append(quarantined, newChange(t))
		}
	}
	v, _ := now.Server(server)
	texts := len(names) == 0 && (v.NewTexts != nil || v.Unreviewed)
	pending = len(quarantined) > 0 || texts
	hash := now.Shown(server, names...)
	if env.JSON {
		if len(names) > 0 {
			v.NewTexts = nil
		}
		return pending, env.WriteJSON(map[string]any{"server": server, "held": quarantined, "texts": v.NewTexts, "shown": hash})
	}
	for _, c := range quarantined {
		env.Printf("%s.%s%s\n", cli.VisibleName(server), cli.VisibleName(c.Tool), map[bool]string{true: " (new)"}[c.IsNew])
		printChange(env, "description", c.Before.Description, c.After.Description)
		printChange(env, "input", c.input(), string(c.After.Input))
		printChange(env, "output", string(c.Before.Output), string(c.After.Output))
		printChange(env, "title", c.Before.Title, c.After.Title)
		printChange(env, "annotations", hintsText(c.Before.Hints), hintsText(c.After.Hints))
		cli.PrintSuspected(env, c.Suspected)
	}
	if texts && v.NewTexts != nil {
		env.Printf("%s, with --all\n", cli.VisibleName(server))
		printChange(env, "title", v.Title, v.NewTexts.Title)
		printChange(env, "instructions", v.Instructions, v.NewTexts.Instructions)
		cli.PrintSuspected(env, cli.Suspect(v.NewTexts.Title, v.NewTexts.Instructions))
	}
	switch {
	case !pending:
		env.Printf("no tool of %s is quarantined\n", cli.VisibleName(server))
	case len(names) == 0:
		env.Printf("accept tools by name, or all as shown with --all --shown %s%s\n", hash,
			map[bool]string{true: ", which also allows its resources and prompts"}[v.Unreviewed])
	}
	return pending, nil
}

// change is a quarantined tool.
type change struct {
	Tool          string          `json:"tool"`
	IsNew         bool            `json:"new,omitempty"`
	Before, After tool.Definition `json:"-"`
	Old           json.RawMessage `json:"before,omitempty"`
	New           json.RawMessage `json:"after"`
	Suspected     []cli.Suspicion `json:"suspected_injection,omitempty"`
}

func newChange(t catalog.Tool) change {
	c := change{Tool: t.Definition.Tool, IsNew: t.New, Before: t.Definition, After: *t.Quarantined}
	if !t.New {
		c.Old, _ = json.Marshal(c.Before)
	}
	c.New, _ = json.Marshal(c.After)
	c.Suspected = cli.Suspect(c.After.Tool, c.After.Title, c.After.Description, string(c.After.Input), string(c.After.Output))
	return c
}

// input is the input schema before the change; a new tool had none.
func (c change) input() string {
	if c.IsNew {
		return ""
	}
	return string(c.Before.Input)
}

func printChange(env *cli.Env, field, before, after string) {
	switch {
	case before == after:
	case before == "":
		env.Printf("  %s: %s\n", field, cli.VisibleName(after))
	default:
		env.Printf("  %s was: %s\n  %s is:  %s\n", field, cli.VisibleName(before), field, cli.VisibleName(after))
	}
}

// hintsText returns annotations as JSON, "" if there are none.
func hintsText(h tool.Hints) string {
	b, _ := json.Marshal(h) // booleans can always be encoded
	if string(b) == "{}" {
		return ""
	}
	return string(b)
}
