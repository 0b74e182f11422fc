package journal

import (
	"encoding/json"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// CheckTool is called before a replay begins. It returns a *Divergence if recorded calls of
// the tool have not been repeated, and it cannot be called any more, with the reason in unavailable, or the
// schema of its arguments has changed: the code was written for the recorded one. Otherwise it returns
// unavailable.
func (r *Record) CheckTool(ref tool.Ref, definition string, unavailable error) error {
	if r == nil {
		return unavailable
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.left {
		if e.ask.Method != "" || e.ask.Ref != ref {
			continue
		}
		switch {
		case r.differs != nil:
			return r.differs
		case unavailable != nil:
			r.differs = changedTool(e, "cannot be called any more: "+fault.Message(unavailable))
		case !r.closed && e.otherDefinition(definition):
			r.differs = changedTool(e, "has another schema of its arguments than in the first run")
		default:
			continue
		}
		r.wake()
		return r.differs
	}
	return unavailable
}

// Tools returns the tools of the recorded calls that have not been repeated, each once.
func (r *Record) Tools() (refs []tool.Ref) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.left {
		if e.ask.Method == "" && !slices.Contains(refs, e.ask.Ref) {
			refs = append(refs, e.ask.Ref)
		}
	}
	return refs
}

// otherDefinition reports whether the call was made with another definition of its tool.
func (e *entry) otherDefinition(definition string) bool {
	var was struct {
		Definition string `json:"definition"`
	}
	return json.Unmarshal(e.answer, &was) == nil && was.Definition != "" && was.Definition != definition
}

func changedTool(e *entry, how string) *Divergence {
	return &Divergence{e.number, fault.New(fault.Invalid, "the tool %s, which the first run called as call %d, %s", e.ask.Ref, e.number, how).
		WithHint("it was stopped, and nothing was repeated: see what the first run did, then run what is left as a new execution")}
}
