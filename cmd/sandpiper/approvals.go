package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

type approvalsOptions struct {
	all    bool
	reason string
}

func (a *app) approvalsCommand() *cobra.Command {
	var o approvalsOptions
	list := &cobra.Command{
		Use: "list", Short: "List the calls and plans that need your approval",
		Long: `List shows the tool calls and plans that are suspended until you approve or deny
them: their age and deadline, the tool, the policy rule, and the arguments as they
will be sent. Long arguments are truncated; show prints them in full.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runApprovalsList(cmd.Context(), o) },
	}
	list.Flags().BoolVar(&o.all, "all", false, "include recent requests that were answered or have expired")
	show := &cobra.Command{
		Use: "show ID...", Short: "Print requests with their full arguments",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error { return a.runApprovalsShow(cmd.Context(), o, ids) },
	}
	approve := &cobra.Command{
		Use: "approve ID...", Short: "Approve calls or plans",
		Long: `Approve allows a call once, exactly as it was shown, or all calls of a plan. An
execution that waits for the approval continues at once. Otherwise the approved call
is made when it is requested again: by resume_execution, sandpiper executions
resume, or the same call.`,
		Example: "  sandpiper approvals list\n  sandpiper approvals approve k7q2m9x4d3",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, ids []string) error { return a.runApprovalsAnswer(cmd.Context(), o, true, ids) },
	}
	deny := &cobra.Command{
		Use: "deny ID...", Short: "Deny calls or plans",
		Long: `Deny makes the call raise an error in the code, which may handle it and continue. A
denied plan is deleted.`,
		Example: "  sandpiper approvals deny k7q2m9x4d3 --reason \"keep last year's\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.runApprovalsAnswer(cmd.Context(), o, false, ids)
		},
	}
	deny.Flags().StringVar(&o.reason, "reason", "", "`TEXT` with the reason, which the code receives")
	return a.ofTenant(group("approvals", "Approve or deny suspended tool calls", list, show, approve, deny))
}

// withApprovals calls use with the approvals of the tenant and the exit that records
// each value that is shown.
func (a *app) withApprovals(ctx context.Context, use func(*approval.Store, *redact.Exit) error) error {
	return a.withDaemonHome(ctx, func(d *daemon.Daemon, home *home.Home) error {
		return use(home.Approvals, d.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}))
	})
}

func (a *app) runApprovalsList(ctx context.Context, o approvalsOptions) error {
	return a.withApprovals(ctx, func(s *approval.Store, exit *redact.Exit) error {
		list, err := s.List(ctx, o.all)
		if err != nil {
			return err
		}
		a.printEmpty(len(list), "no call or plan needs approval")
		return a.showApprovals(ctx, exit, list, maxArgumentText)
	})
}

func (a *app) runApprovalsShow(ctx context.Context, o approvalsOptions, ids []string) error {
	return a.withApprovals(ctx, func(s *approval.Store, exit *redact.Exit) error {
		var list []approval.Request
		for _, id := range ids {
			r, err := s.Find(ctx, id)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return a.showApprovals(ctx, exit, list, 0)
	})
}

// runApprovalsAnswer answers requests. An error in one does not prevent the answers of
// the others.
func (a *app) runApprovalsAnswer(ctx context.Context, o approvalsOptions, approve bool, ids []string) error {
	return a.withDaemonHome(ctx, func(d *daemon.Daemon, h *home.Home) error {
		var done []approval.Request
		var failed error
		for _, id := range ids {
			r, err := h.Approvals.Answer(ctx, id, approval.Answer{Approve: approve, By: approval.CommandLine, Note: o.reason})
			if err == nil {
				done = append(done, r)
				continue
			}
			if failed != nil {
				a.warn(errorText(failed))
			}
			failed = err
		}
		if a.json && failed == nil {
			return a.showApprovals(ctx, d.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}), done, 0)
		}
		waiting := false
		for _, r := range done {
			if a.json { // the only output is the error
				break
			}
			a.printf("%s %s: %s\n", r.ID, r.State, visibleName(approvalSubject(r)))
			if b, err := d.DescribeBackground(ctx, h, r.Execution); err == nil && !b.Ended && noDaemon(d) {
				a.note(r.Execution + " continues when a daemon runs")
				waiting = true
			}
		}
		if waiting {
			a.hintDaemon(d)
		}
		return failed
	})
}

// maxArgumentText is the maximum length of a text in the arguments of list, in bytes.
const maxArgumentText = 300

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
	Rule      string          `json:"rule"`
	Why       string          `json:"rule_reason,omitempty"`
	Created   time.Time       `json:"created"`
	Expires   time.Time       `json:"expires"`
	Answered  *time.Time      `json:"answered,omitempty"`
	By        string          `json:"answered_by,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Damaged   bool            `json:"damaged,omitempty"`
}

func newApprovalJSON(r approval.Request) approvalJSON {
	s := approvalJSON{
		r.ID, r.Kind, r.State, r.Execution, r.Session, r.Server, r.Tool, r.Shown, r.Rule, r.Reason, r.Created, r.Expires, nil, r.By, r.Note, r.Damaged,
	}
	if !r.Answered.IsZero() {
		s.Answered = &r.Answered
	}
	return s
}

// showApprovals prints requests with all values, since the reader is the user and not a
// model.
func (a *app) showApprovals(ctx context.Context, exit *redact.Exit, list []approval.Request, most int) error {
	all := []approvalJSON{}
	for _, r := range list {
		if _, err := exit.RevealToPerson(ctx, string(r.Shown)); err != nil { // records it in the audit log
			return err
		}
		all = append(all, newApprovalJSON(r))
	}
	if a.json {
		if a.jsonLines {
			return writeList(a, "approvals", all)
		}
		return a.writeJSON(map[string]any{"success": true, "count": len(all), "approvals": all})
	}
	for i, r := range list {
		if i > 0 {
			a.printf("\n")
		}
		a.printApproval(r, most)
	}
	return nil
}

func (a *app) printApproval(r approval.Request, most int) {
	s := styleFor(a.stdout)
	a.printf("%s  %s  %s\n", r.ID, visibleName(approvalSubject(r)), s.dim(approvalStatus(r, time.Now())))
	a.printf("    %s\n", s.dim(visibleName(approvalReason(r))))
	if r.Damaged {
		a.printf("    it is damaged or encrypted with another key, and cannot be answered\n")
		return
	}
	text, cut := r.Indented(most)
	a.printf("%s\n", text)
	if cut {
		a.printf("    %s\n", s.dim("truncated; see sandpiper approvals show "+r.ID))
	}
}

func approvalSubject(r approval.Request) string {
	if r.Kind == approval.Plan {
		return "all calls of a plan"
	}
	return r.Ref.String()
}

// approvalReason describes the policy rule and the execution. Plans always need
// approval, without a rule.
func approvalReason(r approval.Request) string {
	if r.Kind == approval.Plan {
		return r.Execution
	}
	reason := "rule " + r.Rule
	if r.Reason != "" {
		reason += ": " + r.Reason
	}
	if r.Execution != "" {
		reason += "; " + r.Execution
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
		return fmt.Sprintf("asked %s ago, %s: %s", age, r.State, visibleName(r.Note))
	}
	state, used := r.State, ""
	if state == approval.Used {
		state, used = approval.Approved, ", used"
	}
	return fmt.Sprintf("asked %s ago, %s%s%s", age, state, answeredBy[r.By], used)
}

// answeredBy describes the source of an answer.
var answeredBy = map[string]string{
	approval.Client: " in the MCP client", approval.CommandLine: " at the command line", approval.WebPage: " on the web page", approval.Program: " by the program",
}
