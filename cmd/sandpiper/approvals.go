package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/preview"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

type approvalsOptions struct {
	all    bool
	reason string
	scope  string // of an approval
	yes    bool   // add a rule without asking
}

func approvalsCommand(env *cli.Env) *cobra.Command {
	var o approvalsOptions
	list := &cobra.Command{
		Use: "list", Short: "List the calls and plans that need your approval",
		Long: `List shows the tool calls and plans that are suspended until you approve or deny
them: their age and deadline, the tool, the policy rule, and the arguments as they
will be sent. Of large arguments the beginning is shown; show prints all of them, and
the code that asks.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runApprovalsList(cmd.Context(), env, o) },
	}
	list.Flags().BoolVar(&o.all, "all", false, "include recent requests that were answered or have expired")
	show := &cobra.Command{
		Use: "show ID...", Short: "Print requests with their full arguments and the code that asks",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error { return runApprovalsShow(cmd.Context(), env, o, ids) },
	}
	approve := &cobra.Command{
		Use: "approve ID...", Short: "Approve calls or plans",
		Long: `Approve allows a call once, exactly as it was shown, or all calls of a plan. An
execution that waits for the approval continues at once. Otherwise the approved call
is made when it is requested again: by resume_execution, sandpiper executions
resume, or the same call.

With --for it also allows further calls of the tool, with any arguments: by the same
execution, by the same session until its interpreter ends, or (tool) by all code and
clients of the tenant, which adds a rule to its policy. The rule is shown first.
Grants lists what was allowed, and revoke ends it.`,
		Example: "  sandpiper approvals list\n  sandpiper approvals approve k7q2m9x4d3\n  sandpiper approvals approve k7q2m9x4d3 --for " +
			"execution",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return runApprovalsAnswer(cmd.Context(), env, o, true, ids)
		},
	}
	cli.EnumFlag(approve.Flags(), &o.scope, "for", "once", "allow only this call, or further calls of the tool too: by its `SCOPE`", "once",
		"execution", "session", "tool")
	approve.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation of a rule")
	deny := &cobra.Command{
		Use: "deny ID...", Short: "Deny calls or plans",
		Long: `Deny makes the call raise an error in the code, which may handle it and continue. A
denied plan is deleted.`,
		Example: "  sandpiper approvals deny k7q2m9x4d3 --reason \"keep last year's\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return runApprovalsAnswer(cmd.Context(), env, o, false, ids)
		},
	}
	deny.Flags().StringVar(&o.reason, "reason", "", "`TEXT` with the reason, which the code receives")
	return cli.OfTenant(env, cli.Group("approvals", "Approve or deny suspended tool calls",
		append([]*cobra.Command{list, show, approve, deny}, grantCommands(env)...)...))
}

// withApprovals calls use with the approvals of the tenant and the gate that records
// each value that is shown.
func withApprovals(ctx context.Context, env *cli.Env, use func(*approval.Store, *redact.Gate) error) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		return use(home.Approvals, d.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}))
	})
}

func runApprovalsList(ctx context.Context, env *cli.Env, o approvalsOptions) error {
	return withApprovals(ctx, env, func(s *approval.Store, gate *redact.Gate) error {
		list, err := s.List(ctx, o.all)
		if err != nil {
			return err
		}
		env.PrintEmpty(len(list), "no call or plan needs approval")
		return showApprovals(ctx, env, gate, list, listLimits)
	})
}

func runApprovalsShow(ctx context.Context, env *cli.Env, o approvalsOptions, ids []string) error {
	return withApprovals(ctx, env, func(s *approval.Store, gate *redact.Gate) error {
		var list []approval.Request
		for _, id := range ids {
			r, err := s.Find(ctx, id)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return showApprovals(ctx, env, gate, list, preview.Limits{})
	})
}

// runApprovalsAnswer answers requests. An error in one does not prevent the answers of
// the others.
func runApprovalsAnswer(ctx context.Context, env *cli.Env, o approvalsOptions, approve bool, ids []string) error {
	scope, err := grant.ParseScope(o.scope)
	if err != nil {
		return err
	}
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		var done []approval.Request
		var failed error
		if scope == grant.Tool {
			if err := confirmRules(ctx, env, h.Approvals, ids, o.yes); err != nil {
				return err
			}
		}
		for _, id := range ids {
			r, err := h.Approvals.Answer(ctx, id, approval.Answer{Approve: approve, By: approval.CommandLine, Note: o.reason, Scope: scope})
			if err == nil {
				done = append(done, r)
				continue
			}
			if failed != nil {
				env.Warn(fault.Sentence(failed))
			}
			failed = err
		}
		if env.JSON && failed == nil {
			return showApprovals(ctx, env, d.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}), done, preview.Limits{})
		}
		waiting := false
		for _, r := range done {
			if env.JSON { // the only output is the error
				break
			}
			env.Printf("%s %s%s: %s\n", r.ID, r.State, allowedFor[r.Scope], cli.VisibleName(approvalSubject(r)))
			if b, err := d.DescribeBackground(ctx, h, r.Execution); err == nil && !b.Ended && cli.NoDaemon(d) {
				env.Note(r.Execution + " continues when a daemon runs")
				waiting = true
			}
		}
		if waiting {
			cli.HintDaemon(env, d)
		}
		return failed
	})
}

// listLimits are those of the arguments in a list.
var listLimits = preview.Limits{Text: 300, Rows: 5, Size: 4 << 10}

// approvalJSON is a request in JSON.
type approvalJSON struct {
	ID        string          `json:"approval_id"`
	Kind      approval.Kind   `json:"kind"`
	State     approval.State  `json:"state"`
	Execution string          `json:"execution_id,omitempty"`
	Session   string          `json:"session_id,omitempty"`
	Server    string          `json:"server,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
	Code      string          `json:"code,omitempty"`
	CodeLeft  int             `json:"code_left,omitempty"` // bytes at its end that are not stored
	Client    string          `json:"client,omitempty"`
	Scopes    []string        `json:"may_be_for,omitempty"` // what approve --for accepts, while it is open
	Rule      string          `json:"rule"`
	Why       string          `json:"rule_reason,omitempty"`
	Created   time.Time       `json:"created"`
	Expires   time.Time       `json:"expires"`
	Answered  *time.Time      `json:"answered,omitempty"`
	By        string          `json:"answered_by,omitempty"`
	For       grant.Scope     `json:"for,omitempty"` // what the answer allows beyond the call
	Reason    string          `json:"reason,omitempty"`
	Damaged   bool            `json:"damaged,omitempty"`
}

func newApprovalJSON(r approval.Request) approvalJSON {
	s := approvalJSON{
		ID:        r.ID,
		Kind:      r.Kind,
		State:     r.State,
		Execution: r.Execution,
		Session:   r.Session,
		Server:    r.Server,
		Tool:      r.Tool,
		Arguments: r.Shown,
		Code:      r.Origin.Code,
		CodeLeft:  r.Origin.CodeLeft,
		Client:    r.Origin.Client,
		Rule:      r.Rule,
		Why:       r.Reason,
		Created:   r.Created,
		Expires:   r.Expires,
		By:        r.By,
		For:       r.Scope,
		Reason:    r.Note,
		Damaged:   r.Damaged,
	}
	if r.State == approval.Open {
		for _, scope := range r.Scopes() {
			s.Scopes = append(s.Scopes, cmp.Or(string(scope), "once"))
		}
	}
	if !r.Answered.IsZero() {
		s.Answered = &r.Answered
	}
	return s
}

// showApprovals prints requests with all values, since the reader is the user and not a
// model.
func showApprovals(ctx context.Context, env *cli.Env, gate *redact.Gate, list []approval.Request, limits preview.Limits) error {
	all := []approvalJSON{}
	for _, r := range list {
		if _, err := gate.RevealToPerson(ctx, string(r.Shown)); err != nil { // records it in the audit log
			return err
		}
		all = append(all, newApprovalJSON(r))
	}
	if env.JSON {
		if env.JSONLines {
			return cli.WriteList(env, "approvals", all)
		}
		return env.WriteJSON(map[string]any{"success": true, "count": len(all), "approvals": all})
	}
	for i, r := range list {
		if i > 0 {
			env.Printf("\n")
		}
		printApproval(env, r, limits)
	}
	return nil
}

// printApproval prints a request; without limits all of its arguments and its code.
func printApproval(env *cli.Env, r approval.Request, limits preview.Limits) {
	s := cli.StyleFor(env.Stdout)
	env.Printf("%s  %s  %s\n", r.ID, cli.VisibleName(approvalSubject(r)), s.Dim(approvalStatus(r, time.Now())))
	env.Printf("    %s\n", s.Dim(cli.VisibleName(approvalReason(r))))
	if r.Damaged {
		env.Printf("    it is damaged or encrypted with another key, and cannot be answered\n")
		return
	}
	text, left := r.Preview(limits)
	env.Printf("%s\n", text)
	if left {
		env.Printf("    %s\n", s.Dim(cli.Completed(env, "not all is shown; see `sandpiper approvals show "+r.ID+"`")))
	}
	if limits == (preview.Limits{}) && r.Origin.Code != "" {
		env.Printf("    %s\n", s.Dim("the code that asks:"))
		env.Printf("%s\n", preview.AllCode(r.Origin.Code))
		if n := r.Origin.CodeLeft; n > 0 {
			env.Printf("    %s\n", s.Dim(fmt.Sprintf("%s more of the code are not stored", cli.Count(n, "byte"))))
		}
	}
}

func approvalSubject(r approval.Request) string {
	if r.Kind == approval.Plan {
		return "all calls of a plan"
	}
	if r.Kind == approval.Outcome {
		return "what happened to call " + strconv.Itoa(r.Occurrence) + ", of " + r.Ref.String()
	}
	return r.Ref.String()
}

// approvalReason describes the policy rule and the execution. Plans always need
// approval, without a rule.
func approvalReason(r approval.Request) string {
	if r.Kind != approval.Call {
		return r.Execution
	}
	reason := "rule " + r.Rule
	if r.Reason != "" {
		reason += ": " + r.Reason
	}
	if r.Execution != "" {
		reason += "; " + r.Execution
	}
	if r.Origin.Client != "" {
		reason += "; " + r.Origin.Client
	}
	return reason
}

// approvalStatus describes the age of a request and its deadline or outcome.
func approvalStatus(r approval.Request, now time.Time) string {
	age := now.Sub(r.Created).Round(time.Second)
	if r.State == approval.Open {
		return fmt.Sprintf("asked %s ago, until %s", age, r.Expires.Local().Format("2006-01-02 15:04:05"))
	}
	if r.State == approval.Denied && strings.HasPrefix(r.Note, approval.NotAsked) {
		return fmt.Sprintf("asked %s ago, %s: %s", age, r.State, cli.VisibleName(r.Note))
	}
	state, used := r.State, ""
	if state == approval.Used {
		state, used = approval.Approved, ", used"
	}
	return fmt.Sprintf("asked %s ago, %s%s%s%s", age, state, allowedFor[r.Scope], answeredBy[r.By], used)
}

// answeredBy describes the source of an answer.
var answeredBy = map[string]string{
	approval.Client: " in the MCP client", approval.CommandLine: " at the command line", approval.WebPage: " on the web page",
	approval.Program: " by the program",
}
