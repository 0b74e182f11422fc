package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

func policyCommand(env *cli.Env) *cobra.Command {
	return cli.Group("policy", "Check the rules for tool calls", policyCheckCommand(env))
}

// hypotheticalCall is a call to be checked; it is not made.
type hypotheticalCall struct{ tool, args, tenant string }

func policyCheckCommand(env *cli.Env) *cobra.Command {
	var s hypotheticalCall
	c := &cobra.Command{
		Use: "check [SERVER.TOOL]", Short: "Explain the policy decision for a call, and check the rules",
		Long: `Check prints the decision of the policy for a call of a tool, the rule that decides,
and why earlier rules do not apply. It makes no call, asks no question and counts
against no budget. Without a tool it prints a summary of the policy and the rules
that can never match. For a tool of a server that is not connected, only the rules
are evaluated, without annotations.

For the syntax of rules and budgets see docs/policy.md.`,
		Example: `  sandpiper policy check
  sandpiper policy check crm.delete_contact --args '{"id": 7}' --tenant acme`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return runPolicyCheck(cmd.Context(), env)
			}
			s.tool = args[0]
			return runPolicyExplain(cmd.Context(), env, s)
		},
	}
	c.Flags().StringVar(&s.args, "args", "{}", "the arguments, a `JSON` object")
	s.tenant = tenant.Local.String()
	c.Flags().Var((*cli.UIDFlag)(&s.tenant), "tenant", "check a call of tenant `ID`")
	return c
}

// policyState is a summary of the policy.
type policyState struct {
	Default  string           `json:"default"`
	Rules    int              `json:"rules"`
	Budgets  int              `json:"budgets"`
	Trusted  []string         `json:"trusted"`
	Findings []policy.Finding `json:"findings"`
}

func newPolicyState(d *daemon.Daemon) policyState {
	cfg := d.Policy().Config()
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

func runPolicyCheck(ctx context.Context, env *cli.Env) error {
	return cli.WithTools(ctx, env, func(d *daemon.Daemon, _ *catalog.Snapshot) error {
		s := newPolicyState(d)
		if env.JSON {
			return env.WriteJSON(s)
		}
		printPolicy(env, s)
		return nil
	})
}

func printPolicy(env *cli.Env, s policyState) {
	env.Printf("%s. Default: %s.\n", countOrNo(s.Rules, "rule"), cli.Visible(s.Default))
	env.Printf("%s.\n", countOrNo(s.Budgets, "budget"))
	trusted := "none, so no tool counts as read-only"
	if len(s.Trusted) > 0 {
		trusted = strings.Join(s.Trusted, ", ")
	}
	env.Printf("Servers with trusted annotations: %s.\n", cli.VisibleName(trusted))
	style := cli.StyleFor(env.Stdout)
	for _, f := range s.Findings {
		env.Printf("%s %s\n", style.Yellow("~"), cli.VisibleName(f.String()))
	}
}

// countOrNo returns a number with a noun, "No" for zero.
func countOrNo(n int, noun string) string {
	switch n {
	case 0:
		return "No " + noun + "s"
	}
	return cli.Count(n, noun)
}

// explanation is a decision with its basis.
type explanation struct {
	Tool   string          `json:"tool"`
	Tenant string          `json:"tenant"`
	Args   json.RawMessage `json:"arguments"`
	policy.Explanation
	Trusted      bool       `json:"trusted"`
	Declared     tool.Hints `json:"annotations"`    // by the server
	Effective    tool.Hints `json:"believed"`       // the trusted ones
	NotConnected string     `json:"note,omitempty"` // the server is not connected
}

func runPolicyExplain(ctx context.Context, env *cli.Env, s hypotheticalCall) error {
	id, err := tenant.ParseStored(s.tenant)
	if err != nil {
		return err
	}
	args, err := schema.Decode(json.RawMessage(s.args))
	if err != nil {
		return cli.Usagef("--args is not a JSON object: %s", err)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return cli.WithTools(ctx, env, func(d *daemon.Daemon, now *catalog.Snapshot) error {
		t, err := resolveTool(now, s.tool)
		if err != nil && !errors.Is(err, errNotConnected) {
			return err
		}
		note := ""
		if errors.Is(err, errNotConnected) {
			note = notConnectedNote(now, t.Ref)
		}
		e := explanation{
			NotConnected: note,
			Tool:         t.Ref.String(),
			Tenant:       id.String(),
			Args:         raw,
			Trusted:      t.Trusted,
			Declared:     t.Hints,
			Effective:    t.TrustedHints,
		}
		e.Explanation, err = d.Policy().Explain(ctx, policy.Call{
			Ref:       t.Ref,
			Tenant:    id,
			Execution: "exec_check",
			Hints:     t.TrustedHints,
			Trusted:   t.Trusted,
			Args:      raw,
		})
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(e)
		}
		printExplanation(env, e)
		return nil
	})
}

// errNotConnected is returned with a tool of which only the name is known.
var errNotConnected = errors.New("the server is not connected")

// notConnectedNote explains that annotations were not considered.
func notConnectedNote(now *catalog.Snapshot, ref tool.Ref) string {
	text := "Server " + ref.Server + " is not connected"
	if near := now.NearestServers(ref.Server, 1); len(near) > 0 && near[0] != ref.Server {
		text += " (did you mean " + near[0] + "?)"
	}
	return text + ": only the rules were evaluated, without annotations of the tool."
}

// resolveTool returns the tool SERVER.TOOL; both names may contain dots. It returns
// errNotConnected with a tool of a server that is not connected or was never listed.
func resolveTool(now *catalog.Snapshot, name string) (catalog.Tool, error) {
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

func printExplanation(env *cli.Env, e explanation) {
	style := cli.StyleFor(env.Stdout)
	verdict := map[policy.Verdict]string{
		policy.Allow: style.Green("allow"), policy.Ask: style.Yellow("ask"), policy.Block: style.Red("block"),
	}[e.Verdict]
	env.Printf("%s: %s, by %s\n", cli.VisibleName(e.Tool), verdict, cli.VisibleName(e.Rule))
	if e.Reason != "" {
		env.Printf("  %s\n", cli.VisibleName(e.Reason))
	}
	if r := e.Requires; r != nil {
		env.Printf("  Code that calls it must run in the sandbox %s, by %s.\n", r.Sandbox, cli.VisibleName(r.By()))
	}
	note := e.annotationsNote()
	if e.NotConnected != "" {
		note = e.NotConnected
	}
	env.Printf("  %s\n", cli.VisibleName(note))
	for _, l := range e.Rules {
		reason := ""
		if l.Why != "" {
			reason = ": " + l.Why
		}
		place := ""
		if l.At != "" {
			place = " (" + l.At + ")"
		}
		env.Printf("  %-6s %s%s, %s%s\n", l.Fits, cli.VisibleName(l.Rule), cli.VisibleName(place), ruleEffect(l), cli.VisibleName(reason))
	}
	for _, b := range e.Budgets {
		env.Printf("  %s: %s per %s\n", cli.VisibleName(b.Budget), cli.Count(b.Calls, "call"), b.Per)
	}
	if len(e.Budgets) > 0 {
		env.Printf("  The current counts are known to the running daemons only.\n")
	}
}

// ruleEffect returns what a rule decides and requires.
func ruleEffect(l policy.RuleResult) string {
	switch {
	case l.Sandbox == "":
		return string(l.Decision)
	case l.Decision == "":
		return "sandbox " + l.Sandbox
	}
	return string(l.Decision) + ", sandbox " + string(l.Sandbox)
}

// annotationsNote describes the annotations of the tool and whether they are trusted.
func (e explanation) annotationsNote() string {
	declared := annotationNames(e.Declared)
	switch {
	case declared == "":
		return "The tool has no annotations: it is treated as neither read-only nor destructive."
	case e.Trusted:
		return "The annotations are: " + declared + ". The server is trusted, so they are used."
	case annotationNames(e.Effective) == "":
		return "The annotations are: " + declared + ". The server is not trusted, so they are ignored (set trusted: true to use them)."
	case annotationNames(e.Effective) == declared:
		return "The annotations are: " + declared + ". The server is not trusted, but they are used because they are restrictive."
	}
	return "The annotations are: " + declared + ". The server is not trusted, so only the restrictive ones are used: " +
		annotationNames(e.Effective) + "."
}

func annotationNames(h tool.Hints) string {
	var all []string
	for _, annotation := range []struct {
		hint    *bool
		yes, no string
	}{{h.ReadOnly, "read-only", "not read-only"}, {h.Destructive, "destructive", "not destructive"},
		{h.Idempotent, "idempotent", "not idempotent"}, {h.OpenWorld, "open world", "closed world"}} {
		switch {
		case annotation.hint == nil:
		case *annotation.hint:
			all = append(all, annotation.yes)
		default:
			all = append(all, annotation.no)
		}
	}
	return strings.Join(all, ", ")
}
