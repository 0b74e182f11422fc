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

// usedSkill is a skill that the code has imported.
type usedSkill struct {
	Name   string `json:"name"`
	Hash   string `json:"hash"` // of its code
	number int    // of the entry
	past   bool   // of an earlier run
}

// AddSkill records that the code imports a skill whose code has a hash.
func (r *Record) AddSkill(name, hash string) {
	if r == nil {
		return
	}
	b, err := json.Marshal(usedSkill{Name: name, Hash: hash})
	if err != nil { // cannot happen: texts have a JSON form
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.skills[name]; known || r.closed {
		return
	}
	r.last++
	r.setSkill(usedSkill{Name: name, Hash: hash, number: r.last})
	r.mark(&entry{number: r.last, ask: HostCall{Method: skillUsed}, state: answered, answer: b})
}

// setSkill adds a skill. The caller holds the lock.
func (r *Record) setSkill(s usedSkill) {
	if r.skills == nil {
		r.skills = map[string]usedSkill{}
	}
	r.skills[s.Name] = s
}

// recallSkill adds a recorded skill.
func (r *Record) recallSkill(e *entry) error {
	s := usedSkill{number: e.number, past: true}
	err := json.Unmarshal(e.answer, &s)
	r.setSkill(s)
	return err
}

// Skills returns the names of the skills that earlier runs of the code have imported, in order.
func (r *Record) Skills() (names []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, s := range r.skills {
		if s.past {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckSkill is called before a replay begins. It returns a *Divergence if a recorded skill has other
// code now; hash "" means that it was deleted.
func (r *Record) CheckSkill(name, hash string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.skills[name]
	if s.Hash == hash {
		return nil
	}
	how := "has been changed since"
	if hash == "" {
		how = "has been deleted since"
	}
	r.differs = &Divergence{s.number, fault.New(fault.Invalid, "the skill %s, which the first run imported, %s", name, how).
		WithHint("it was stopped, and nothing was repeated: save the former code of the skill and resume again, or see what the first run did and run what is left as a new execution")}
	r.wake()
	return r.differs
}
