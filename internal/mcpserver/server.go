package mcpserver

import (
	"context"
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Server is the MCP server of a daemon.
type Server struct {
	cfg        Config
	wire       *wire.Server
	key        stateKey
	smallest   map[string]builtin.Profile // the smallest profile that lists each tool
	tokenTools map[string]bool            // tools that need privacy
	waiting    waitingCalls
	recent     recentAnswers
	shown      shownQuestions // of tasks

	mu    sync.Mutex
	lists map[audience][]wire.Tool
}

// gateWithoutTenant returns the gate for text that belongs to no tenant.
func (s *Server) gateWithoutTenant() *redact.Gate { return s.cfg.Privacy.For(redact.Owner{}) }

// acquire opens the home of a caller; an empty caller is an error.
func (s *Server) acquire(ctx context.Context, caller string) (*home.Home, error) {
	id, err := tenant.ParseStored(caller)
	if err != nil {
		return nil, err
	}
	return s.cfg.Tenants.Acquire(ctx, id)
}

// withHome calls f with the home of a caller.
func (s *Server) withHome(ctx context.Context, caller string, f func(*home.Home) error) error {
	h, err := s.acquire(ctx, caller)
	if err != nil {
		return err
	}
	return errors.Join(f(h), h.Release(context.WithoutCancel(ctx)))
}

func (s *Server) ownGate(h *home.Home) *redact.Gate {
	return s.cfg.Privacy.Of(h.ID()).For(redact.Owner{Tenant: h.ID(), Vault: h.Vault})
}
