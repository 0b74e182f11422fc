package upstream

import (
	"context"
	"io"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// Local is an MCP server in this process. Its implementations are pointers, so that equal
// Servers can be recognized.
type Local interface {
	// Connect opens a connection with one message per line. The caller closes it.
	Connect(context.Context) (io.ReadWriteCloser, error)
}

// InProcess is the kind of a server in this process.
type InProcess struct{ Local }

// Noun implements Kind.
func (InProcess) Noun() string { return "an MCP server in this process" }

// Validate implements Kind.
func (InProcess) Validate() error { return nil }

// Connector implements Kind.
func (p InProcess) Connector(h *Host) Connector {
	return ConnectorFunc(func(ctx context.Context) (Session, error) {
		streams, err := p.Connect(ctx)
		if err != nil {
			return nil, openError(ctx, err)
		}
		session, err := mcp.OpenStreams(ctx, streams, streams, mcpConfig(h, h.legacy))
		if err != nil {
			_ = streams.Close()
			return nil, openError(ctx, err)
		}
		return localSession{mcpSession{session}, streams}, nil
	})
}

// localSession is a session over streams that it closes.
type localSession struct {
	mcpSession
	streams io.Closer
}

// Close implements Session.
func (s localSession) Close() {
	s.mcpSession.Close()
	_ = s.streams.Close()
}
