package sandpiper

import (
	"context"
	"encoding/json"
	"time"
)

// States are small JSON values by name, which code reads with get_state.
type States struct{ client *Client }

// State returns the saved JSON values.
func (c *Client) State() States { return States{c} }

// State is a saved JSON value.
type State struct {
	Name    string          `json:"state_file"`
	Value   json.RawMessage `json:"state_data"`
	Version int64
	Updated time.Time
}

// Get returns a value with its version.
func (s States) Get(ctx context.Context, name string) (State, error) {
	var state State
	err := s.client.do(ctx, "get_state", map[string]any{"state_file": name}, &state)
	return state, err
}

// Save saves a value; nil deletes it.
func (s States) Save(ctx context.Context, name string, value any) error {
	return s.client.do(ctx, "save_state", map[string]any{"state_file": name, "state_data": value}, nil)
}
