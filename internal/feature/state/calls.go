package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// host serves the host calls by which one execution saves and reads states. A dry run saves them in memory
// only, and sees what it saved.
type host struct {
	store *Store
	gate  *redact.Gate
	dry   *memory // nil unless it is a dry run
}

// HostCalls returns the calls of code.
func HostCalls() hostcall.Source { return hostcall.Source{Words: []string{"_state"}, Methods: calls} }

// calls returns the host calls of an execution.
func calls(s hostcall.Scope) []hostcall.Method {
	h := host{store: Open(s.Home), gate: s.Gate}
	if s.DryRun {
		h.dry = &memory{states: map[string]State{}}
	}
	return []hostcall.Method{
		hostcall.New("save_state", hostcall.Replayed, h.save),
		hostcall.New("get_state", hostcall.Replayed|hostcall.Quick, h.get),
	}
}

// memory has the states that a dry run has saved or deleted.
type memory struct {
	mu     sync.Mutex
	states map[string]State
}

// put saves a state; have is its present version. It returns the new one.
func (m *memory) put(d Draft, have int64) (version int64, err error) {
	if err := cmp.Or(d.Check(), d.CheckVersion(have)); err != nil {
		return 0, err
	}
	if !d.Deletes() {
		version = have + 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[d.Name] = State{Entry: Entry{Name: d.Name, Version: version}, Value: d.Value}
	return version, nil
}

func (m *memory) find(name string) (State, bool) {
	if m == nil {
		return State{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.states[name]
	return s, ok
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
	d := Draft(a)
	var err error
	if h.gate.Strict() {
		if d.Value, err = h.gate.RedactJSON(ctx, a.Value); err != nil {
			return nil, err
		}
	}
	version, err := h.put(ctx, d)
	if c, ok := errors.AsType[*Conflict](err); ok {
		return saved{c.Version, fault.Message(err) + ": " + fault.Hint(err)}, nil
	}
	return saved{Version: version}, err
}

func (h host) put(ctx context.Context, d Draft) (version int64, err error) {
	if h.dry == nil {
		return h.store.Put(ctx, d)
	}
	now, err := h.find(ctx, d.Name)
	if err != nil {
		return 0, err
	}
	return h.dry.put(d, now.Version)
}

// find returns a state, with version 0 if there is none.
func (h host) find(ctx context.Context, name string) (State, error) {
	if s, ok := h.dry.find(name); ok {
		return s, nil
	}
	s, err := h.store.Get(ctx, name)
	if fault.KindOf(err) == fault.NotFound {
		return State{}, nil
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
	if err != nil || s.Version == 0 || !h.gate.Strict() {
		return found{s.Version, s.Value}, err
	}
	redacted, err := h.gate.RedactJSON(ctx, s.Value)
	if err != nil {
		return nil, err
	}
	value, err := h.gate.Restorer().Variables(ctx, redacted)
	return found{s.Version, value}, err
}
