package daemon

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// approvals opens the approvals of one tenant.
func (d *data) approvals(id tenant.ID, db *store.DB) (*approval.Store, error) {
	key, err := d.derive("approvals", "approvals", true)
	if err != nil {
		return nil, err
	}
	return approval.New(approval.Config{
		DB:      db,
		Tenant:  id,
		Key:     key,
		Timeout: d.settings(id).Approvals.Timeout,
		Via:     func() approval.Via { return d.settings(id).Approvals.Via },
		Unknown: func(unknown string) {
			d.auditLater(audit.Line{Kind: audit.Access, Tenant: id, Approval: unknown, Outcome: "unknown_approval"})
		},
		Record: func(ctx context.Context, r approval.Request) error {
			line := decisionLine(id, r)
			if err := d.audit.Append(ctx, line); err != nil {
				return err
			}
			d.decided(line)
			return nil
		},
	})
}

// RevokeGrant deletes a permission for further calls that came with an approval, and records who did it.
func RevokeGrant(ctx context.Context, d *Daemon, h *home.Home, id, by string) (grant.Grant, error) {
	return h.Approvals.Grants.Revoke(ctx, strings.ToLower(strings.TrimSpace(id)), func(g grant.Grant) error {
		return d.data.audit.Append(ctx, audit.Line{
			Kind:     audit.Decision,
			Tenant:   h.ID(),
			Session:  g.Session,
			Server:   g.Server,
			Tool:     g.Tool,
			Decision: "revoked",
			Approval: g.ID,
			By:       by,
		})
	})
}

// decisionLine returns the audit line of a request: the question, or the answer and its
// source.
func decisionLine(id tenant.ID, r approval.Request) audit.Line {
	l := audit.Line{
		Kind:      audit.Decision,
		Tenant:    id,
		Session:   r.Session,
		Execution: r.Execution,
		Server:    r.Server,
		Tool:      r.Tool,
		Approval:  r.ID,
		Decision:  string(r.State),
		By:        r.By,
		Rule:      r.Rule,
	}
	if r.State == approval.Open {
		l.Decision = "ask"
	}
	if r.Scope != grant.Once {
		l.Outcome = "for_" + string(r.Scope)
	}
	return l
}
