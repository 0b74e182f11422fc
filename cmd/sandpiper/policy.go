package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

func (a *app) policyCommand() *cobra.Command {
	return group("policy", "Look at the rules about calls of tools", a.policyCheckCommand())
}

// supposed is a call that is not made.
type supposed struct{ tool, args, tenant string }

func (a *app) policyCheckCommand() *cobra.Command {
	var s supposed
	c := &cobra.Command{
		Use: "check [SERVER.TOOL]", Short: "Explain what the policy says of a call, and what is odd about it",
		Long: `Check says what the policy would decide on a call of a tool, by which rule, and why
the rules before it do not decide. Nothing is called, asked or counted. Without a tool
it says what is in force, and which rules can never match. A tool of a server that is
not connected is judged by the rules alone.

How rules and budgets are written is in docs/policy.md.`,
		Example: `  sandpiper policy check
  sandpiper policy check crm.delete_contact --args '{"id": 7}' --tenant acme`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.runPolicyCheck(cmd.Context())
			}
			s.tool = args[0]
			return a.runPolicyExplain(cmd.Context(), s)
		},
	}
	c.Flags().StringVar(&s.args, "args", "{}", "the arguments, a `JSON` object")
	c.Flags().StringVar(&s.tenant, "tenant", tenant.Local.String(), "whose code would make the call: tenant `ID`")
	return c
}

// policyState is what is in force.
type policyState struct {
	Default  string           `json:"default"`
	Rules    int              `json:"rules"`
	Budgets  int              `json:"budgets"`
	Trusted  []string         `json:"trusted"`
	Findings []policy.Finding `json:"findings"`
}

func statePolicy(d *daemon.Daemon) policyState {
	cfg := d.Policy.Config()
	if p := cfg.Project; p != nil {
		cfg.Rules, cfg.Budgets = slices.Concat(cfg.Rules, p.Rules), slices.Concat(cfg.Budgets, p.Budgets)
	}
	s := policyState{
		Default: cmp.Or(string(cfg.Default), "allow, but ask for tools marked destructive"),
		Rules:   len(cfg.Rules), Budgets: len(cfg.Budgets), Trusted: []string{}, Findings: append([]policy.Finding{}, d.Findings()...),
	}
	for _, v := range d.Servers.Catalog.Now().Servers {
		if v.Connected && v.Trusted {
			s.Trusted = append(s.Trusted, v.Name)
		}
	}
	return s
}

func (a *app) runPolicyCheck(ctx context.Context) error {
	return a.tools(ctx, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		s := statePolicy(d)
		if a.json {
			return a.writeJSON(s)
		}
		a.printPolicy(s)
		return nil
	})
}

func (a *app) printPolicy(s policyState) {
	a.printf("%s. Where none decides: %s.\n", counted(s.Rules, "rule"), visible(s.Default))
	a.printf("%s.\n", counted(s.Budgets, "budget"))
	trusted := "no server, so no tool counts as one that only reads"
	if len(s.Trusted) > 0 {
		trusted = strings.Join(s.Trusted, ", ")
	}
	a.printf("Trusted in what they say of their tools: %s.\n", visibleName(trusted))
	style := styleFor(a.stdout)
	for _, f := range s.Findings {
		a.printf("%s %s\n", style.yellow("~"), visibleName(f.String()))
	}
}

func counted(n int, what string) string {
	switch n {
	case 0:
		return "No " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// explained is a decision with all that it rests on.
type explained struct {
	Tool   string          `json:"tool"`
	Tenant string          `json:"tenant"`
	Args   json.RawMessage `json:"arguments"`
	policy.Explanation
	Trusted bool       `json:"trusted"`
	Said    tool.Hints `json:"annotations"`    // by the server
	Counts  tool.Hints `json:"believed"`       // of that
	Unknown string     `json:"note,omitempty"` // why nothing is known of the tool
}

func (a *app) runPolicyExplain(ctx context.Context, s supposed) error {
	id, err := tenant.Parse(s.tenant)
	if err != nil {
		return err
	}
	args, err := schema.Decode(json.RawMessage(s.args))
	if err != nil {
		return usagef("the arguments of --args cannot be read: %s", err)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return a.tools(ctx, func(d *daemon.Daemon, now *catalog.Snapshot) error {
		t, err := named(now, s.tool)
		if err != nil && !errors.Is(err, errNotConnected) {
			return err
		}
		unknown := ""
		if errors.Is(err, errNotConnected) {
			unknown = notConnected(now, t.Ref)
		}
		e := explained{Unknown: unknown, Tool: t.Ref.String(), Tenant: id.String(), Args: raw, Trusted: t.Trusted, Said: t.Hints, Counts: t.TrustedHints}
		e.Explanation, err = d.Policy.Explain(ctx, policy.Call{Ref: t.Ref, Tenant: id, Execution: "exec_check", Hints: t.TrustedHints, Trusted: t.Trusted, Args: raw})
		if err != nil {
			return err
		}
		if a.json {
			return a.writeJSON(e)
		}
		a.printExplained(e)
		return nil
	})
}

// errNotConnected is returned with a tool of which nothing but its name is known.
var errNotConnected = errors.New("the server is not connected")

// notConnected says that a decision rests on the rules alone.
func notConnected(now *catalog.Snapshot, ref tool.Ref) string {
	text := "Server " + ref.Server + " is not connected"
	if near := now.NearestServers(ref.Server, 1); len(near) > 0 && near[0] != ref.Server {
		text += " (did you mean " + near[0] + "?)"
	}
	return text + ": this goes by the rules alone, as if the server said nothing of what the tool does."
}

// named finds the tool that is meant by SERVER.TOOL, where both may have dots.
// With errNotConnected it returns one of a server that is not connected, or has not
// said which tools it has.
func named(now *catalog.Snapshot, name string) (catalog.Tool, error) {
	for i := range name {
		if name[i] != '.' {
			continue
		}
		ref := now.Resolve(tool.Ref{Server: name[:i], Tool: name[i+1:]})
		if t, found := toolcall.Find(now, ref); found {
			if v, ok := now.Server(ref.Server); !ok || !v.Connected {
				return t, errNotConnected
			}
			return t, nil
		}
		if v, ok := now.Server(ref.Server); ok && (!v.Connected || v.Listed.IsZero()) {
			return catalog.Tool{Definition: tool.Definition{Ref: ref}}, errNotConnected
		}
	}
	if server, name, ok := strings.Cut(name, "."); ok && server != "" && name != "" {
		if _, known := now.Server(server); !known {
			return catalog.Tool{Definition: tool.Definition{Ref: tool.Ref{Server: server, Tool: name}}}, errNotConnected
		}
	}
	var near []string
	for _, t := range now.Tools {
		near = append(near, t.Ref.String())
	}
	e := fault.New(fault.NotFound, "there is no tool %.200q", name)
	if near = fault.Nearest(name, near, 3); len(near) > 0 {
		return catalog.Tool{}, e.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return catalog.Tool{}, e.WithHint("write SERVER.TOOL; `sandpiper tools search` finds tools")
}

func (a *app) printExplained(e explained) {
	style := styleFor(a.stdout)
	verdict := map[policy.Verdict]string{
		policy.Allow: style.green("allow"), policy.Ask: style.yellow("ask"), policy.Block: style.red("block"),
	}[e.Verdict]
	a.printf("%s: %s, by %s\n", visibleName(e.Tool), verdict, visibleName(e.Rule))
	if e.Reason != "" {
		a.printf("  %s\n", visibleName(e.Reason))
	}
	about := e.hints()
	if e.Unknown != "" {
		about = e.Unknown
	}
	a.printf("  %s\n", visibleName(about))
	for _, l := range e.Rules {
		why := ""
		if l.Why != "" {
			why = ": " + l.Why
		}
		place := ""
		if l.At != "" {
			place = " (" + l.At + ")"
		}
		a.printf("  %-6s %s%s, %s%s\n", l.Fits, visibleName(l.Rule), visibleName(place), l.Decision, visibleName(why))
	}
	for _, b := range e.Budgets {
		a.printf("  %s: %d calls per %s\n", visibleName(b.Budget), b.Calls, b.Per)
	}
	if len(e.Budgets) > 0 {
		a.printf("  What running daemons have counted is known to them alone.\n")
	}
}

// hints says what the server says of the tool, and what of that counts.
func (e explained) hints() string {
	said := words(e.Said)
	switch {
	case said == "":
		return "The server says nothing of what the tool does: it is neither read-only nor destructive."
	case e.Trusted:
		return "The server says: " + said + ". It is trusted, so that counts."
	case words(e.Counts) == "":
		return "The server says: " + said + ". It is not trusted, so that does not count (trusted: true would have it count)."
	case words(e.Counts) == said:
		return "The server says: " + said + ". It is not trusted, and counts all the same, since it speaks against the tool."
	}
	return "The server says: " + said + ". It is not trusted, so that only this counts: " + words(e.Counts) + "."
}

func words(h tool.Hints) string {
	var all []string
	for _, one := range []struct {
		hint    *bool
		yes, no string
	}{{h.ReadOnly, "read-only", "not read-only"}, {h.Destructive, "destructive", "not destructive"}, {h.Idempotent, "idempotent", "not idempotent"}, {h.OpenWorld, "open world", "closed world"}} {
		switch {
		case one.hint == nil:
		case *one.hint:
			all = append(all, one.yes)
		default:
			all = append(all, one.no)
		}
	}
	return strings.Join(all, ", ")
}
