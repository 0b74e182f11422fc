package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
)

// grantCommands returns the commands about what was allowed beyond the approved calls.
func grantCommands(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{{
		Use: "grants", Short: "List the tools that may be called without asking again",
		Long: `Grants lists what was allowed beyond the approved calls: further calls of a tool, by an
execution, by a session until its interpreter ends, or by all code and clients of the
tenant. The policy still decides first: a call that it blocks stays blocked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runGrants(cmd.Context(), env) },
	}, {
		Use: "revoke ID...", Short: "Ask again before further calls of a tool",
		Long:    "Revoke ends what was allowed beyond an approved call, at once; grants lists the IDs.",
		Example: "  sandpiper approvals grants\n  sandpiper approvals revoke k7q2m9x4d3",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, ids []string) error { return runRevoke(cmd.Context(), env, ids) },
	}}
}

// allowedFor describes the scope of an approval.
var allowedFor = map[grant.Scope]string{grant.Execution: " for this execution", grant.Session: " for this session", grant.Tool: " always"}

// confirmRules shows the rules that approvals for a tool add, and asks whether to add them.
func confirmRules(ctx context.Context, env *cli.Env, s *approval.Store, ids []string, yes bool) error {
	for _, id := range ids {
		r, err := s.Find(ctx, id)
		if err != nil {
			return err
		}
		if r.Kind == approval.Plan { // the answer is refused
			continue
		}
		env.Note("This adds a rule: nobody is asked again about calls of " + cli.VisibleName(r.Ref.String()) +
			", with any arguments:\n    " + cli.VisibleName(grant.Rule(r.Ref)))
	}
	switch {
	case yes:
		return nil
	case env.JSON || !cli.IsTerminal(env.Stdin) || !cli.IsTerminal(env.Stderr):
		return fault.New(fault.Invalid, "nothing was approved: there is no terminal to confirm the rule at").WithHint("add --yes")
	case !env.Confirm(ctx, false, "Add it?"):
		return errors.New("nothing was approved")
	}
	return nil
}

// grantJSON is a grant in JSON.
type grantJSON struct {
	ID      string      `json:"approval_id"`
	For     grant.Scope `json:"for"`
	Subject string      `json:"execution_id,omitempty"`
	Session string      `json:"session_id,omitempty"`
	Server  string      `json:"server"`
	Tool    string      `json:"tool"`
	Rule    string      `json:"rule,omitempty"` // that it is, for a tool
	By      string      `json:"answered_by"`
	Created time.Time   `json:"created"`
	Expires *time.Time  `json:"expires,omitempty"`
}

func newGrantJSON(g grant.Grant) grantJSON {
	j := grantJSON{
		ID:      g.ID,
		For:     g.Scope,
		Session: g.Session,
		Server:  g.Server,
		Tool:    g.Tool,
		By:      g.By,
		Created: g.Created,
	}
	switch g.Scope {
	case grant.Execution:
		j.Subject = g.Subject
	case grant.Tool:
		j.Rule = grant.Rule(g.Ref)
	}
	if !g.Expires.IsZero() {
		j.Expires = &g.Expires
	}
	return j
}

func runGrants(ctx context.Context, env *cli.Env) error {
	return cli.WithHome(ctx, env, func(h *home.Home) error {
		list, err := h.Approvals.Grants.List(ctx)
		if err != nil {
			return err
		}
		all := []grantJSON{}
		for _, g := range list {
			all = append(all, newGrantJSON(g))
		}
		if env.JSON {
			if env.JSONLines {
				return cli.WriteList(env, "grants", all)
			}
			return env.WriteJSON(map[string]any{"success": true, "count": len(all), "grants": all})
		}
		env.PrintEmpty(len(list), "no tool may be called without asking again")
		for _, g := range list {
			env.Printf("%s  %s  %s\n", g.ID, cli.VisibleName(g.Ref.String()), cli.StyleFor(env.Stdout).
				Dim(cli.VisibleName(grantDetails(g))))
		}
		return nil
	})
}

// grantDetails describes the scope of a grant, where it was given, and when it expires.
func grantDetails(g grant.Grant) string {
	text := "always: " + grant.Rule(g.Ref)
	switch g.Scope {
	case grant.Execution:
		text = "for " + g.Subject
	case grant.Session:
		text = "for session " + g.Session + " until its interpreter ends"
	}
	text += "; allowed" + answeredBy[g.By] + " at " + g.Created.Local().Format(time.DateTime)
	if !g.Expires.IsZero() {
		text += ", until " + g.Expires.Local().Format(time.DateTime)
	}
	return text
}

func runRevoke(ctx context.Context, env *cli.Env, ids []string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		for _, id := range ids {
			g, err := daemon.RevokeGrant(ctx, d, h, id, approval.CommandLine)
			if err != nil {
				return err
			}
			env.PrintDone("%s revoked: %s", g.ID, cli.VisibleName(g.Ref.String()))
		}
		return nil
	})
}
