package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Notice is a log message for the person at a client: something that needs attention and that
// no answer of a call reports at once.
type Notice struct {
	Level  string    // warning or error
	Logger string    // servers, approvals or policy
	Tenant tenant.ID // that may see it; zero means all tenants that may use Server
	Body   NoticeBody
}

// NoticeBody is the content of a Notice: names and ids, and reasons, which are redacted.
type NoticeBody struct {
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty"`
	Server    string `json:"server,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Execution string `json:"execution_id,omitempty"`
	Session   string `json:"session_id,omitempty"`
	Approval  string `json:"approval_id,omitempty"`
}

// Notify sends a notice to the clients before 2026-07-28 that have chosen a level. It does not
// wait for them.
func (s *Server) Notify(n Notice) {
	if w, ok := (noticeLog{s}).notice(n); ok {
		s.wire.Notify(w)
	}
}

// noticeLog sends notices to clients as log messages.
type noticeLog struct{ *Server }

// notice converts a notice. Private values in it are replaced by their types, as in the log.
func (s noticeLog) notice(n Notice) (wire.Notice, bool) {
	data, err := s.gateWithoutTenant().Redact(context.Background(), n.Body)
	if err != nil {
		s.cfg.Log.Error("redact a log message", "error", err)
		return wire.Notice{}, false
	}
	return wire.Notice{Level: n.Level, Logger: n.Logger, Data: data, For: func(caller string) bool {
		id, err := tenant.ParseStored(caller)
		return err == nil && (id == n.Tenant || n.Tenant.IsZero() && s.maySee(id, n.Body.Server))
	}}, true
}

// maySee reports whether a tenant may use a server.
func (s noticeLog) maySee(id tenant.ID, server string) bool {
	return s.cfg.Find != nil && s.cfg.Find.For(catalog.Viewer{Tenant: id}).HasServer(server)
}

// logs returns the handlers of log messages.
func (s noticeLog) logs() *wire.Logs {
	return &wire.Logs{Scope: string(access.Execute), Current: s.currentNotices}
}

// currentNotices returns a notice for each server of the caller that does not work.
func (s noticeLog) currentNotices(_ context.Context, caller string) (all []wire.Notice) {
	id, err := tenant.ParseStored(caller)
	if err != nil || s.cfg.Find == nil {
		return nil
	}
	for _, v := range s.cfg.Find.For(catalog.Viewer{Tenant: id}).Servers().Servers {
		if v.Reason == "" {
			continue
		}
		if n, ok := s.notice(FailedServer(v.Name, v.Reason, v.Hint)); ok {
			all = append(all, n)
		}
	}
	return all
}

// FailedServer returns the notice about a server that does not work.
func FailedServer(name, reason, hint string) Notice {
	return Notice{Level: "error", Logger: "servers", Body: NoticeBody{Message: reason, Hint: hint, Server: name}}
}
