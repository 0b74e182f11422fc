package daemon

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// notifier tells clients what a person should know.
type notifier struct{ *Daemon }

// notify sends a notice to clients.
func (d notifier) notify(n mcpserver.Notice) {
	if d.server != nil { // which is the last to be built
		d.server.Notify(n)
	}
}

// auditCall writes a line about a call to the audit log, and notifies the tenant's clients of
// a denial.
func (d notifier) auditCall(l audit.Line) {
	d.data.auditLater(l)
	d.notifyOf(l)
}

// notifyOf notifies the tenant's clients of the event of a line, if a person should know it.
func (d notifier) notifyOf(l audit.Line) {
	n, ok := noticeOf(l)
	if !ok {
		return
	}
	if n.Body.Hint != "" {
		var with fault.Commands
		if l.Tenant != tenant.Local {
			with.Tenant = l.Tenant.String()
		}
		if !d.cfg.Served { // its client and the operator are the same person
			with.Config = d.cfg.ConfigFile
		}
		n.Body.Hint = strings.Trim(with.Complete("`"+n.Body.Hint+"`"), "`")
	}
	d.notify(n)
}

// noticeOf returns the notice of an audit line: a call that was denied, or that waits for a
// person.
func noticeOf(l audit.Line) (mcpserver.Notice, bool) {
	if l.Kind != audit.Decision || l.Tenant.IsZero() {
		return mcpserver.Notice{}, false
	}
	n := mcpserver.Notice{Level: "warning", Logger: "policy", Tenant: l.Tenant, Body: mcpserver.NoticeBody{
		Server:    l.Server,
		Tool:      l.Tool,
		Rule:      l.Rule,
		Execution: l.Execution,
		Session:   l.Session,
		Approval:  l.Approval,
	}}
	switch {
	case l.Approval != "" && l.Decision == "ask":
		n.Logger, n.Body.Message = "approvals", "a call waits for the person to approve it"
		n.Body.Hint = "sandpiper approvals show " + l.Approval
	case l.Approval == "" && (l.Decision == "block" || l.Decision == "refuse"):
		n.Body.Message = "policy or a guardrail denied a call"
		if l.Tool == "" {
			n.Body.Message = "a guardrail denied code"
		}
	default:
		return mcpserver.Notice{}, false
	}
	return n, true
}

// serverFailed notifies the clients that may use a server that it does not work.
func (d notifier) serverFailed(name string, err error) {
	d.notify(mcpserver.FailedServer(name, fault.Message(err), fault.Hint(err)))
}

// toolQuarantined notifies the clients that may use a server of a tool that must be accepted.
func (d notifier) toolQuarantined(server, tool string) {
	d.notify(mcpserver.Notice{Level: "warning", Logger: "servers", Body: mcpserver.NoticeBody{
		Message: "a tool is quarantined: it is new or has changed, and must be accepted", Server: server, Tool: tool,
		Hint: "sandpiper tools accept " + server + " " + tool,
	}})
}
