package upstream

import (
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Phase is where a server is in its life.
type Phase int

const (
	Stopped  Phase = iota // not needed so far, or not for some time
	Starting              // on its way
	Ready                 // connected
	Failed                // see State.Reason
)

func (p Phase) String() string {
	return [...]string{"stopped", "starting", "ready", "failed"}[p]
}

// MarshalJSON implements json.Marshaler.
func (p Phase) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// State says how a server is.
type State struct {
	Name   string    `json:"name"`
	State  Phase     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // why it failed
	Hint   string    `json:"hint,omitempty"`   // what to do about it
	Retry  time.Time `json:"retry,omitzero"`   // when it is tried again; zero means with the next call
	Stderr []string  `json:"stderr,omitempty"` // the last lines of its program, also of one that ended
	PID    int       `json:"pid,omitempty"`    // of its program
	Info   Info      `json:"info,omitzero"`    // what it says of itself, while it is ready
}

// States tells of all servers, by name.
func (s *Set) States() []State {
	var states []State
	for _, name := range s.names() {
		states = append(states, s.servers[name].state())
	}
	return states
}

func (v *server) state() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	st := State{Name: v.Name, Since: v.since, Stderr: v.stderr}
	switch {
	case v.conn != nil:
		st.State, st.Info = Ready, v.conn.session.Info()
		if c := v.conn.child; c != nil {
			st.PID, st.Stderr = c.PID(), c.StderrLines()
		}
	case v.starting != nil:
		st.State = Starting
	case v.reason != nil:
		st.State, st.Reason, st.Hint, st.Retry = Failed, fault.Message(v.reason), fault.Hint(v.reason), v.retryAt
	}
	return st
}
