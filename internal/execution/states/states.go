// Package states serves the host calls by which code saves and reads states. A dry run saves them in
// memory only, and sees what it saved.
package states

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/state"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

type host struct {
	store *state.Store
	exit  *redact.Exit
	dry   *plan.DryRun
}

// Methods returns the host calls of an execution; dry is nil unless it is a dry run.
func Methods(store *state.Store, exit *redact.Exit, dry *plan.DryRun) []hostcall.Method {
	h := host{store, exit, dry}
	return []hostcall.Method{
		hostcall.New("save_state", hostcall.Replayed, h.save),
		hostcall.New("get_state", hostcall.Replayed|hostcall.Quick, h.get),
	}
}

type saveArgs struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value"`
	Version *int64          `json:"version"`
}

// saved is the answer to save_state; the code raises the conflict.
type saved struct {
	Version  int64  `json:"version"`
	Conflict string `json:"conflict,omitempty"`
}

// save saves a state. In mode strict, code knows values by tokens of its interpreter; the state
// contains tokens of the vault, which last.
func (h host) save(ctx context.Context, a saveArgs) (any, error) {
	d := state.Draft{Name: a.Name, Value: a.Value, Version: a.Version}
	var err error
	if h.exit.Strict() {
		if d.Value, err = h.exit.RedactJSON(ctx, a.Value); err != nil {
			return nil, err
		}
	}
	version, err := h.put(ctx, d)
	if c, ok := errors.AsType[*state.Conflict](err); ok {
		return saved{c.Version, fault.Message(err) + ": " + fault.Hint(err)}, nil
	}
	return saved{Version: version}, err
}

func (h host) put(ctx context.Context, d state.Draft) (version int64, err error) {
	if h.dry == nil {
		return h.store.Put(ctx, d)
	}
	now, err := h.find(ctx, d.Name)
	if err != nil {
		return 0, err
	}
	return h.dry.SaveState(d, now.Version)
}

// find returns a state, with version 0 if there is none.
func (h host) find(ctx context.Context, name string) (state.State, error) {
	if s, ok := h.dry.FindState(name); ok {
		return s, nil
	}
	s, err := h.store.Get(ctx, name)
	if fault.KindOf(err) == fault.NotFound {
		return state.State{}, nil
	}
	return s, err
}

type found struct {
	Version int64           `json:"version"`
	Value   json.RawMessage `json:"value"`
}

// get finds a state. In mode strict, code gets tokens of its interpreter, also for values that were
// saved in another mode.
func (h host) get(ctx context.Context, a hostcall.Name) (any, error) {
	s, err := h.find(ctx, a.Name)
	if err != nil || s.Version == 0 || !h.exit.Strict() {
		return found{s.Version, s.Value}, err
	}
	redacted, err := h.exit.RedactJSON(ctx, s.Value)
	if err != nil {
		return nil, err
	}
	value, err := h.exit.Restorer().Variables(ctx, redacted)
	return found{s.Version, value}, err
}
