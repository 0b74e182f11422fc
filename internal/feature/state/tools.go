package state

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Tools returns the tools of the server.
func Tools() []builtin.Tool {
	name := builtin.Param{Name: "state_file", Kind: builtin.Text, Required: true}
	return []builtin.Tool{{
		Name:        "save_state",
		Profile:     builtin.Full,
		Description: "Save a small JSON value by name. Code has save_state(name, value, version=None) too.",
		Params:      []builtin.Param{{Name: "state_data", Kind: builtin.Anything, Required: true, MaxBytes: MaxBytes}, name},
		Hints:       wire.Hints{Destructive: true, Idempotent: true},
		Run:         builtin.Handle(saveState),
	}, {
		Name:        "get_state",
		Profile:     builtin.Full,
		Description: "Read a saved JSON value.",
		Params:      []builtin.Param{name},
		Hints:       wire.Hints{ReadOnly: true},
		Run:         builtin.Handle(getState),
	}}
}

func saveState(ctx context.Context, c builtin.Call, args struct {
	Data json.RawMessage `json:"state_data"`
	Name string          `json:"state_file"`
}) (redact.Message, error) {
	if err := c.Name(ctx, &args.Name); err != nil {
		return redact.Message{}, err
	}
	value, err := c.Gate().Restorer().Variables(ctx, args.Data)
	if err != nil {
		return redact.Message{}, err
	}
	draft := Draft{Name: args.Name, Value: value}
	if _, err := Open(c.Home).Put(ctx, draft); err != nil {
		return redact.Message{}, err
	}
	if draft.Deletes() {
		return builtin.Did("State '%s' deleted", args.Name)
	}
	return builtin.Did("State '%s' saved", args.Name)
}

// savedState is the answer of get_state.
type savedState struct {
	Name    string          `json:"state_file"`
	Data    json.RawMessage `json:"state_data"`
	Version int64           `json:"version"`
	Updated time.Time       `json:"updated"`
}

func getState(ctx context.Context, c builtin.Call, args struct {
	Name string `json:"state_file"`
}) (redact.Message, error) {
	if err := c.Name(ctx, &args.Name); err != nil {
		return redact.Message{}, err
	}
	found, err := Open(c.Home).Get(ctx, args.Name)
	return redact.Message{Body: savedState{found.Name, found.Value, found.Version, found.Updated}}, err
}
