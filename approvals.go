package sandpiper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Approvals are the calls and plans of the tenant that wait for a person. The program must ask that
// person: an approval by a model is none.
type Approvals struct{ client *Client }

// Approvals returns the approvals of the tenant. Their methods fail after Dial: there the person
// answers on the web page of the server, or with the command sandpiper approvals.
func (c *Client) Approvals() Approvals { return Approvals{c} }

// Approval is a call of a tool, or a plan, that waits for a person.
type Approval struct {
	ID        string          // as Question.Approval
	Tool      string          // SERVER.TOOL; "" of a plan
	Arguments json.RawMessage // as they will be sent, with private values; the calls of a plan
	Rule      string          // of the policy, which requires the approval
	Reason    string          // of the rule
	Execution string          // Resume returns its result after the answer; "" of a call without one
	Session   string          // "" without one
	Created   time.Time
	Expires   time.Time
	Code      string   // Python that asks, at most 256 KiB; "" if none does
	Client    string   // name and version of the MCP client; "" if it is not known
	Scopes    []string // what ApproveFor accepts, the smallest first: once, execution, session, tool
	Always    string   // the rule that ApproveFor with "tool" adds, to show to the person first
}

// List returns what waits, the oldest first. The audit log records that private values were shown.
func (a Approvals) List(ctx context.Context) (all []Approval, err error) {
	err = a.use(ctx, func(h *home.Home) error {
		waiting, err := h.Approvals.List(ctx, false)
		if err != nil {
			return err
		}
		gate := a.client.embedded.daemon.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault})
		for _, r := range waiting {
			if r.Kind == approval.Outcome { // there is nothing to approve
				continue
			}
			if _, err := gate.RevealToPerson(ctx, string(r.Shown)); err != nil { // records it
				return err
			}
			all = append(all, newApproval(r))
		}
		return nil
	})
	return all, err
}

func newApproval(r approval.Request) Approval {
	name := r.Ref.String()
	if r.Kind == approval.Plan {
		name = ""
	}
	var scopes []string
	for _, s := range r.Scopes() {
		scopes = append(scopes, cmp.Or(string(s), "once"))
	}
	return Approval{
		Code: r.Origin.Code, Client: r.Origin.Client, Scopes: scopes, Always: grant.Rule(r.Ref),
		ID: r.ID, Tool: name, Arguments: r.Shown, Rule: r.Rule, Reason: r.Reason,
		Execution: r.Execution, Session: r.Session, Created: r.Created, Expires: r.Expires,
	}
}

// Approve allows a call, once, or all calls of a plan. Code that waits for it continues.
func (a Approvals) Approve(ctx context.Context, id string) error {
	return a.answer(ctx, id, approval.Answer{Approve: true, By: approval.Program})
}

// ApproveFor allows a call, and with the scope execution, session or tool also further calls of its tool with
// any arguments: by its execution, by the live interpreter of its session, or by all code and clients of the
// tenant until Revoke. Tell the person who chooses. A call that the policy blocks stays blocked.
func (a Approvals) ApproveFor(ctx context.Context, id, scope string) error {
	of, err := grant.ParseScope(scope)
	if err != nil {
		return failed("approvals", err)
	}
	return a.answer(ctx, id, approval.Answer{Approve: true, By: approval.Program, Scope: of})
}

// Grants returns the approvals that allow further calls, the oldest first: their ID, Tool, Execution or Session,
// the one of Scopes that was given, the rule Always if that is tool, and their times; Expires is zero if they do
// not expire.
func (a Approvals) Grants(ctx context.Context) (all []Approval, err error) {
	err = a.use(ctx, func(h *home.Home) error {
		found, err := h.Approvals.Grants.List(ctx)
		for _, g := range found {
			one := Approval{
				ID:      g.ID,
				Tool:    g.Ref.String(),
				Scopes:  []string{string(g.Scope)},
				Session: g.Session,
				Created: g.Created,
				Expires: g.Expires,
			}
			switch g.Scope {
			case grant.Execution:
				one.Execution = g.Subject
			case grant.Tool:
				one.Always = grant.Rule(g.Ref)
			}
			all = append(all, one)
		}
		return err
	})
	return all, err
}

// Revoke ends what was allowed beyond an approved call, at once.
func (a Approvals) Revoke(ctx context.Context, id string) error {
	return a.use(ctx, func(h *home.Home) error {
		_, err := daemon.RevokeGrant(ctx, a.client.embedded.daemon, h, id, approval.Program)
		return err
	})
}

// Deny makes a call raise an error in the code, with the reason, or deletes a plan. Only the first
// answer counts.
func (a Approvals) Deny(ctx context.Context, id, reason string) error {
	return a.answer(ctx, id, approval.Answer{By: approval.Program, Note: reason})
}

func (a Approvals) answer(ctx context.Context, id string, answer approval.Answer) error {
	return a.use(ctx, func(h *home.Home) error {
		_, err := h.Approvals.Answer(ctx, id, answer)
		return err
	})
}

// use calls f with the open data of the tenant.
func (a Approvals) use(ctx context.Context, f func(*home.Home) error) error {
	c := a.client
	if c.embedded == nil {
		return errors.New("sandpiper: approvals: they need a client of Open; with a server, use its web page or the command sandpiper " +
			"approvals")
	}
	if c.isClosed() {
		return ErrClosed
	}
	h, err := c.embedded.daemon.Tenants.Acquire(ctx, c.tenant)
	if err != nil {
		return failed("approvals", err)
	}
	if err := errors.Join(f(h), h.Release(context.WithoutCancel(ctx))); err != nil {
		return failed("approvals", err)
	}
	return nil
}
