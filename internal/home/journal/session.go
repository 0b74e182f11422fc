package journal

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// A task of a session has a record that is never written to the tables of the journal: the
// session's log stores it with the task. Its replay is complete, so that no call is made.

// MaxSessionRecord bounds the record of one task of a session, in bytes.
const MaxSessionRecord = 4 << 20

// sessionCall is the stored form of a host call of a task.
type sessionCall struct {
	Method string          `json:"m,omitempty"` // "" for a tool
	Server string          `json:"s,omitempty"`
	Tool   string          `json:"t,omitempty"`
	Args   []byte          `json:"a"`           // unchanged: their hash identifies the call
	Answer json.RawMessage `json:"r,omitempty"` // an Answer; none if the task ended before it
}

// NewSessionRecord starts the record of a task of a session. Begin and Done write the entries of
// its calls, as without a record.
func (l *Log) NewSessionRecord(id string) *Record {
	r := l.run(id, nil, false)
	r.pending.session = true
	return r
}

// ReplaySession returns a record that answers the calls of a task with those that Encode
// returned. A call that is not among them is a Divergence.
func (l *Log) ReplaySession(id string, content []byte) (*Record, error) {
	r := l.NewSessionRecord(id)
	r.replay.closed = true
	if len(content) == 0 {
		return r, nil
	}
	var calls []sessionCall
	if err := json.Unmarshal(content, &calls); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of a task cannot be read")
	}
	for _, c := range calls {
		e := &entry{number: r.pending.last + 1, ask: HostCall{Method: c.Method, Ref: tool.Ref{Server: c.Server, Tool: c.Tool},
			Args: c.Args}, state: begun, answer: c.Answer}
		if c.Answer != nil {
			e.state = answered
		}
		if err := recall(r, e); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Encode returns the content of the record of a task, nil if it made no calls. It returns false if
// the record is too large.
func Encode(r *Record) (content []byte, ok bool, err error) {
	r.waitForLater()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending.large {
		return nil, false, nil
	}
	calls := make([]sessionCall, 0, len(r.pending.dirty))
	for _, e := range r.pending.dirty {
		if e.ask.Method != question { // the answer of the call that asked has its outcome
			calls = append(calls, sessionCall{e.ask.Method, e.ask.Ref.Server, e.ask.Ref.Tool, e.ask.Args, e.answer})
		}
	}
	if len(calls) == 0 {
		return nil, true, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // shorter
	err = enc.Encode(calls)
	return b.Bytes(), err == nil, err
}

// Left returns the recorded calls that the replay has not repeated.
func Left(r *Record) (names []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.replay.left {
		if name := e.ask.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// notOnRecord is the Divergence of a call that a task of a session did not make.
func (p *replay) notOnRecord(now HostCall) *Divergence {
	what := "calls " + now.String()
	d := &Divergence{}
	for _, e := range p.left {
		if e.ask.Method == now.Method && e.ask.Ref == now.Ref {
			d.Number = e.number
			what += " with " + changedArguments(now.Args, e.ask.Args) + " than on record"
			break
		}
	}
	if d.Number == 0 {
		what += ", which is not on record"
	}
	d.fault = fault.New(fault.Invalid, "the code %s", what).WithHint("it was stopped before this call")
	return d
}

// unanswered is the answer to a call that had none when the task ended.
func unanswered(a HostCall) *Answer {
	if a.Method == "" {
		return &Answer{Failure: &tool.Failure{Ref: a.Ref, Unknown: true, Local: true,
			Message: a.String() + " had not been answered when the task ended: it is unknown whether it took effect"}}
	}
	return &Answer{Fault: &Fault{Kind: fault.Unavailable, Message: a.String() + " had not been answered when the task ended"}}
}
