package upstream

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Phase is a stage in the life cycle of a server.
type Phase int

const (
	Stopped  Phase = iota // not started yet, or idle
	Starting              // being started or connected to
	Ready                 // connected
	Failed                // see State.Reason
)

func (p Phase) String() string {
	return [...]string{"stopped", "starting", "ready", "failed"}[p]
}

// MarshalJSON implements json.Marshaler.
func (p Phase) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// State describes a server at one moment.
type State struct {
	Name   string    `json:"name"`
	State  Phase     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // why it failed
	Hint   string    `json:"hint,omitempty"`   // remedy
	Retry  time.Time `json:"retry,omitzero"`   // earliest retry; zero means with the next call
	Stderr []string  `json:"stderr,omitempty"` // the last lines of its program, also after it has exited
	PID    int       `json:"pid,omitempty"`    // of its program
	Info   Info      `json:"info,omitzero"`    // while it is ready
}

// States returns the state of all servers, sorted by name.
func (s *Set) States() []State {
	var states []State
	s.mu.Lock()
	servers := slices.Collect(maps.Values(s.servers))
	s.mu.Unlock()
	slices.SortFunc(servers, func(a, b *server) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range servers {
		states = append(states, v.state())
	}
	return states
}

func (v *server) state() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	st := State{Name: v.Name, Since: v.since}
	if p, ok := v.connector.(*program); ok {
		st.Stderr = p.lastStderr()
	}
	switch {
	case v.conn != nil:
		st.State, st.Info = Ready, v.conn.session.Info()
		if p := v.conn.program; p != nil {
			st.PID, st.Stderr = p.child.PID(), p.child.StderrLines()
		}
	case v.starting != nil:
		st.State = Starting
	case v.reason != nil:
		st.State, st.Reason, st.Hint, st.Retry = Failed, fault.Message(v.reason), fault.Hint(v.reason), v.retryAt
	}
	return st
}
