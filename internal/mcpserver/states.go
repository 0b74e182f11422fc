package mcpserver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/state"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

func (s *Server) stateTools() []builtin {
	name := param{name: "state_file", kind: text, required: true}
	return []builtin{{
		name: "save_state", profile: Full,
		about:  "Save a small JSON value by name. Code has save_state(name, value, version=None) too.",
		params: []param{{name: "state_data", kind: anything, required: true, most: state.MaxBytes}, name},
		hints:  wire.Hints{Destructive: true, Idempotent: true},
		run:    s.saveState,
	}, {
		name: "get_state", profile: Full,
		about:  "Read a saved JSON value.",
		params: []param{name},
		hints:  wire.Hints{ReadOnly: true},
		run:    s.getState,
	}}
}

func (s *Server) saveState(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Data json.RawMessage `json:"state_data"`
		Name string          `json:"state_file"`
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := c.name(ctx, &args.Name); err != nil {
		return redact.Message{}, err
	}
	value, err := c.exit().Restorer().Variables(ctx, args.Data)
	if err != nil {
		return redact.Message{}, err
	}
	draft := state.Draft{Name: args.Name, Value: value}
	if _, err := c.home.States.Put(ctx, draft); err != nil {
		return redact.Message{}, err
	}
	if draft.Deletes() {
		return did("State '%s' deleted", args.Name)
	}
	return did("State '%s' saved", args.Name)
}

// savedState is the answer of get_state.
type savedState struct {
	Name    string          `json:"state_file"`
	Data    json.RawMessage `json:"state_data"`
	Version int64           `json:"version"`
	Updated time.Time       `json:"updated"`
}

func (s *Server) getState(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Name string `json:"state_file"`
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := c.name(ctx, &args.Name); err != nil {
		return redact.Message{}, err
	}
	found, err := c.home.States.Get(ctx, args.Name)
	return redact.Message{Body: savedState{found.Name, found.Value, found.Version, found.Updated}}, err
}
