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
func CheckTool(r *Record, ref tool.Ref, definition string, unavailable error) error {
	if r == nil {
		return unavailable
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.replay
	for _, e := range p.left {
		if e.ask.Method != "" || e.ask.Ref != ref {
			continue
		}
		switch {
		case p.differs != nil:
			return p.differs
		case unavailable != nil:
			return p.diverge(changedTool(e, "cannot be called any more: "+fault.Message(unavailable)))
		case !p.closed && e.otherDefinition(definition):
			return p.diverge(changedTool(e, "has another schema of its arguments than in the first run"))
		}
	}
	return unavailable
}

// Tools returns the tools of the recorded calls that have not been repeated, each once.
func Tools(r *Record) (refs []tool.Ref) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.replay.left {
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
	return &Divergence{e.number, fault.New(fault.Invalid, "the tool %s, which the first run called as call %d, %s", e.ask.Ref, e.number,
		how).
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
func AddSkill(r *Record, name, hash string) {
	if r == nil {
		return
	}
	b, err := json.Marshal(usedSkill{Name: name, Hash: hash})
	if err != nil { // cannot happen: texts have a JSON form
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.replay.skills[name]; known || r.replay.closed {
		return
	}
	r.pending.note(skillUsed, 0, b)
	r.replay.skills[name] = usedSkill{Name: name, Hash: hash, number: r.pending.last}
}

// Skills returns the names of the skills that earlier runs of the code have imported, in order.
func Skills(r *Record) (names []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, s := range r.replay.skills {
		if s.past {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CheckSkill is called before a replay begins. It returns a *Divergence if a recorded skill has other
// code now; hash "" means that it was deleted.
func CheckSkill(r *Record, name, hash string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.replay.skills[name]
	if s.Hash == hash {
		return nil
	}
	how := "has been changed since"
	if hash == "" {
		how = "has been deleted since"
	}
	return r.replay.diverge(&Divergence{s.number, fault.New(fault.Invalid, "the skill %s, which the first run imported, %s", name, how).
		WithHint("it was stopped, and nothing was repeated: save the former code of the skill and resume again, or see what the first " +
			"run did and run what is left as a new execution")})
}
