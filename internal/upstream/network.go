package upstream

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/network"
)

// networkSession adapts a network.Client to session. Only Close ends it.
type networkSession struct{ *network.Client }

// Info implements session.
func (networkSession) Info() Info {
	return Info{Title: "Network", Instructions: "Sends HTTP requests to hosts that the operator allows."}
}

// openNetwork returns the connection for requests of code. Nothing is sent.
func (v *server) openNetwork() *connection {
	cfg := network.Config{Rules: v.Network, Spool: v.set.spool, UserAgent: v.set.cfg.Client,
		Resolve: func(ctx context.Context, header, value string) (string, error) {
			return v.resolveSetting(ctx, "header "+header, value)
		}}
	if v.set.cfg.Version != "" {
		cfg.UserAgent += "/" + v.set.cfg.Version
	}
	return &connection{session: networkSession{network.New(cfg)}}
}
