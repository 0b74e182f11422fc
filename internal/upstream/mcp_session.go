package upstream

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// mcpSession adapts an mcp.Session to Session.
type mcpSession struct{ *mcp.Session }

// protocol returns the session, for requests that only MCP servers support.
func (s mcpSession) protocol() *mcp.Session { return s.Session }

// IsBroken implements Session.
func (mcpSession) IsBroken(err error) bool {
	if errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrSessionExpired) || errors.Is(err, mcp.ErrOtherHost) {
		return true
	}
	network, down := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	status, answered := errors.AsType[*mcp.StatusError](err)
	return down && network.Op == "dial" || name || answered && (status.Code == 401 || status.Code == 403) ||
		fault.KindOf(err) == fault.Denied && !errors.Is(err, ErrInsufficientScope)
}

// protocolOf returns the session of an MCP server; nil for other servers.
func protocolOf(s Session) *mcp.Session {
	if s, ok := s.(interface{ protocol() *mcp.Session }); ok {
		return s.protocol()
	}
	return nil
}

// mcpConfig returns the configuration of a session with the server of h.
func mcpConfig(h *Host, initializeFirst bool) mcp.Config {
	var invalid atomic.Int64
	return mcp.Config{
		Client: h.set.cfg.Client, Version: h.set.cfg.Version, MaxMessage: h.MaxResponse, Spool: h.Spool,
		InitializeFirst: initializeFirst, ToolsChanged: h.ToolsChanged, ListChanges: &h.set.listChanges, Log: h.Log,
		InvalidMessage: func(line string) {
			count := invalid.Add(1)
			if count == 1 {
				h.Log.Warn("an upstream server sent an invalid message, which is dropped", "line", h.redact.text(line))
				return
			}
			h.Log.Debug("an upstream server sent an invalid message", "line", h.redact.text(line), "count", count)
		},
	}
}
