package execution

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/state"
)

type saveStateArgs struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value"`
	Version *int64          `json:"version"`
}

// savedState is the answer to save_state; the code raises the conflict.
type savedState struct {
	Version  int64  `json:"version"`
	Conflict string `json:"conflict,omitempty"`
}

// saveState saves a state. In mode strict, code knows values by tokens of its interpreter; the
// state contains tokens of the vault, which last.
func (h *host) saveState(ctx context.Context, a saveStateArgs) (any, error) {
	d := state.Draft{Name: a.Name, Value: a.Value, Version: a.Version}
	var err error
	if h.exit.Strict() {
		if d.Value, err = redactJSON(ctx, h.exit, a.Value); err != nil {
			return nil, err
		}
	}
	var version int64
	if h.dry != nil {
		version, err = h.saveStateDry(ctx, d)
	} else {
		version, err = h.home.States.Put(ctx, d)
	}
	if c, ok := errors.AsType[*state.Conflict](err); ok {
		return savedState{c.Version, fault.Message(err) + ": " + fault.Hint(err)}, nil
	}
	return savedState{Version: version}, err
}

func (h *host) saveStateDry(ctx context.Context, d state.Draft) (version int64, err error) {
	now, err := h.findState(ctx, d.Name)
	if err != nil {
		return 0, err
	}
	return h.dry.SaveState(d, now.Version)
}

// findState returns a state, with version 0 if there is none. A dry run sees the states that it
// saved itself.
func (h *host) findState(ctx context.Context, name string) (state.State, error) {
	if s, ok := h.dry.FindState(name); ok {
		return s, nil
	}
	s, err := h.home.States.Get(ctx, name)
	if fault.KindOf(err) == fault.NotFound {
		return state.State{}, nil
	}
	return s, err
}

// getState finds a state. In mode strict, code gets tokens of its interpreter, also for values
// that were saved in another mode.
func (h *host) getState(ctx context.Context, name string) (any, error) {
	s, err := h.findState(ctx, name)
	if err != nil || s.Version == 0 || !h.exit.Strict() {
		return foundState{s.Version, s.Value}, err
	}
	redacted, err := redactJSON(ctx, h.exit, s.Value)
	if err != nil {
		return nil, err
	}
	value, err := h.exit.Restorer().Variables(ctx, redacted)
	return foundState{s.Version, value}, err
}

type foundState struct {
	Version int64           `json:"version"`
	Value   json.RawMessage `json:"value"`
}
