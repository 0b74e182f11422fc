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
		Use: "list", Short: "List the calls and plans that wait for your approval",
		Long: `List shows which calls of tools and which plans wait until you approve or deny them:
how long they have waited, when that ends, the tool, why you are asked, and the
arguments as they will be sent. Long arguments are cut; show has all of them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runApprovalsList(cmd.Context(), o) },
	}
	list.Flags().BoolVar(&o.all, "all", false, "those too that were answered or have expired, of the last days")
	show := &cobra.Command{
		Use: "show ID...", Short: "Print all of what would be sent",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error { return a.runApprovalsShow(cmd.Context(), o, ids) },
	}
	approve := &cobra.Command{
		Use: "approve ID...", Short: "Have calls made",
		Long: `Approve lets a call be made, once, and exactly as it was shown; or all calls of a
plan. Whoever waits for it goes on at once. Where nobody waits, what was approved is
done when it is asked for again: by resume_execution, sandpiper executions resume,
or the same call.`,
		Example: "  sandpiper approvals list\n  sandpiper approvals approve k7q2m9x4d3",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, ids []string) error { return a.runApprovalsAnswer(cmd.Context(), o, true, ids) },
	}
	deny := &cobra.Command{
		Use: "deny ID...", Short: "Have calls not made",
		Long: `Deny has a call fail in the code that makes it, which may go on without it. A plan that
is denied is gone.`,
		Example: "  sandpiper approvals deny k7q2m9x4d3 --reason \"keep last year's\"",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.runApprovalsAnswer(cmd.Context(), o, false, ids)
		},
	}
	deny.Flags().StringVar(&o.reason, "reason", "", "`TEXT` that tells whoever asked why")
	return a.ofTenant(group("approvals", "Approve or deny calls of tools that wait for you", list, show, approve, deny))
}

// inApprovals calls use with the approvals of a tenant, and the border that what is
// shown of them passes.
func (a *app) inApprovals(ctx context.Context, use func(*approval.Store, *redact.Exit) error) error {
	return a.homeOf(ctx, func(d *daemon.Daemon, home *home.Home) error {
		return use(home.Approvals, d.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}))
	})
}

func (a *app) runApprovalsList(ctx context.Context, o approvalsOptions) error {
	return a.inApprovals(ctx, func(s *approval.Store, exit *redact.Exit) error {
		list, err := s.List(ctx, o.all)
		if err != nil {
			return err
		}
		if len(list) == 0 && !a.json {
			a.printf("nothing waits for approval\n")
			return nil
		}
		return a.showApprovals(ctx, exit, list, mostOfText)
	})
}

func (a *app) runApprovalsShow(ctx context.Context, o approvalsOptions, ids []string) error {
	return a.inApprovals(ctx, func(s *approval.Store, exit *redact.Exit) error {
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

// runApprovalsAnswer answers requests. One that takes no answer does not keep the
// others from theirs.
func (a *app) runApprovalsAnswer(ctx context.Context, o approvalsOptions, approve bool, ids []string) error {
	return a.inApprovals(ctx, func(s *approval.Store, exit *redact.Exit) error {
		var done []approval.Request
		var wrong error
		for _, id := range ids {
			r, err := s.Answer(ctx, id, approval.Answer{Approve: approve, By: approval.CommandLine, Note: o.reason})
			if err == nil {
				done = append(done, r)
				continue
			}
			if wrong != nil {
				a.warn(errorText(wrong))
			}
			wrong = err
		}
		if a.json && wrong == nil {
			return a.showApprovals(ctx, exit, done, 0)
		}
		for _, r := range done {
			if a.json { // whose one answer is the error
				break
			}
			a.printf("%s %s: %s\n", r.ID, r.State, visibleName(whatIsAsked(r)))
		}
		return wrong
	})
}

// mostOfText bounds a text in the arguments that list shows, in bytes.
const mostOfText = 300

// shownApproval is a request as JSON.
type shownApproval struct {
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

func shownOf(r approval.Request) shownApproval {
	s := shownApproval{
		r.ID, r.Kind, r.State, r.Execution, r.Session, r.Server, r.Tool, r.Shown, r.Rule, r.Reason, r.Created, r.Expires, nil, r.By, r.Note, r.Damaged,
	}
	if !r.Answered.IsZero() {
		s.Answered = &r.Answered
	}
	return s
}

// showApprovals prints requests with all values: it is the person who reads them.
func (a *app) showApprovals(ctx context.Context, exit *redact.Exit, list []approval.Request, most int) error {
	all := []shownApproval{}
	for _, r := range list {
		if _, err := exit.RevealToPerson(ctx, string(r.Shown)); err != nil { // is on record
			return err
		}
		all = append(all, shownOf(r))
	}
	if a.json {
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
	a.printf("%s  %s  %s\n", r.ID, visibleName(whatIsAsked(r)), s.dim(howFar(r, time.Now())))
	a.printf("    %s\n", s.dim(visibleName(whyAsked(r))))
	if r.Damaged {
		a.printf("    it is damaged or was encrypted with another key, and cannot be answered\n")
		return
	}
	text, cut := r.Indented(most)
	a.printf("%s\n", text)
	if cut {
		a.printf("    %s\n", s.dim("not all of it; see sandpiper approvals show "+r.ID))
	}
}

func whatIsAsked(r approval.Request) string {
	if r.Kind == approval.Plan {
		return "the calls of a plan"
	}
	return r.Ref.String()
}

// whyAsked is the rule that has the person asked, and for whom; a plan always is.
func whyAsked(r approval.Request) string {
	if r.Kind == approval.Plan {
		return r.Execution
	}
	why := "rule " + r.Rule
	if r.Reason != "" {
		why += ": " + r.Reason
	}
	if r.Execution != "" {
		why += "; " + r.Execution
	}
	return why
}

// howFar is the age of a request, and its deadline or end.
func howFar(r approval.Request, now time.Time) string {
	age := now.Sub(r.Created).Round(time.Second)
	if r.State == approval.Open {
		return fmt.Sprintf("asked %s ago, until %s", age, r.Expires.Local().Format("2006-01-02 15:04:05"))
	}
	by := ""
	if r.By != "" {
		by = " by the " + strings.ReplaceAll(r.By, "_", " ")
	}
	return fmt.Sprintf("asked %s ago, %s%s", age, r.State, by)
}
