package journal

import (
	"encoding/json"
	"slices"
	"time"
)

// overhead approximates the size of an entry without its arguments and answer.
const overhead = 128

// pending has the entries of a run that have no answer yet, and the changes for its next commit. The lock of
// the record guards it.
type pending struct {
	session bool           // of a task of a session: all stays in memory
	last    int            // number of an entry
	open    map[int]*entry // entries without an answer
	dirty   []*entry       // entries for the next commit
	waiting int            // bytes of dirty entries
	kept    int            // bytes in the log of calls or the database
	stored  bool           // the log of calls, or the database, has the record
	large   bool           // over the limit: no longer recorded
	ended   bool           // nothing more is recorded
	steps   pendingSteps
}

// pendingSteps are the steps that have ended since the last commit.
type pendingSteps struct {
	ended   []stepGroup
	row     int         // number of the row for them
	deletes []int       // numbers of ended steps whose entries are on disk
	last    time.Time   // of the last commit of steps
	flush   *time.Timer // nil if none is scheduled
}

func (s *pendingSteps) exist() bool { return s.ended != nil || s.deletes != nil }

func (s *pendingSteps) drop() { s.ended, s.deletes = nil, nil }

// add returns a new entry for a call, which is open.
func (p *pending) add(a HostCall) *entry {
	p.last++
	e := &entry{number: p.last, ask: a, state: asked}
	p.open[e.number] = e
	p.mark(e)
	return e
}

// note adds an entry that is no call.
func (p *pending) note(method string, step int, content []byte) {
	p.last++
	p.mark(&entry{number: p.last, ask: HostCall{Method: method, Step: step}, state: answered, answer: content})
}

// answer ends an entry with an answer.
func (p *pending) answer(e *entry, a Answer) {
	b, err := a.encode()
	if err != nil {
		p.drop() // an answer without JSON cannot be replayed
		return
	}
	if e.state, e.answer = stateOf(a), b; e.dirty {
		p.grow(len(b))
	}
	delete(p.open, e.number)
	p.mark(e)
	p.endQuestions(e)
}

// endQuestions ends the questions with a reply that a call has asked, since the call has its answer.
func (p *pending) endQuestions(call *entry) {
	for _, e := range p.open {
		if e.asker == call.number && e.state == replied {
			p.answer(e, Answer{})
		}
	}
}

// stop ends the recording.
func (p *pending) stop() {
	p.ended, p.dirty = true, nil
	if p.steps.drop(); p.steps.flush != nil {
		p.steps.flush.Stop()
	}
}

// mark adds e to the next commit.
func (p *pending) mark(e *entry) {
	if p.large || p.ended || e.dirty {
		return
	}
	e.dirty = true
	p.dirty = append(p.dirty, e)
	p.grow(len(e.ask.Args) + len(e.answer) + overhead)
}

// grow counts bytes that wait for a commit.
func (p *pending) grow(n int) {
	most := maxWaiting
	if p.session {
		most = MaxSessionRecord
	}
	if p.waiting += n; p.waiting > most || p.kept+p.waiting > maxRun {
		p.drop()
	}
}

// drop stops recording because the record is too large.
func (p *pending) drop() {
	p.large, p.dirty, p.waiting = true, nil, 0
	p.steps.drop()
}

// appended records that the log of calls has the lines that newLines returned.
func (p *pending) appended() {
	for _, e := range p.dirty {
		e.dirty, e.stored = false, true
		if of := p.open[e.ask.Step]; of != nil {
			of.inner += len(e.ask.Args) + len(e.answer) + overhead
		}
	}
	if p.steps.ended != nil {
		p.steps.last = time.Now()
	}
	p.steps.drop()
	p.stored, p.dirty, p.kept, p.waiting = true, nil, p.kept+p.waiting, 0
}

// removeStep removes the entries of a step, and of the steps inside that have not ended, since they
// raised an error. It reports whether there may be some on disk.
func (p *pending) removeStep(e *entry) (inside bool) {
	inside = e.stored || e.inner > 0
	for _, number := range e.steps {
		if inner := p.open[number]; inner != nil && inner.ask.Method == methodStep && inner.ask.Step == e.number {
			inside = p.removeStep(inner) || inside
		}
	}
	delete(p.open, e.number)
	p.dirty = slices.DeleteFunc(p.dirty, func(d *entry) bool {
		if d != e && d.ask.Step != e.number {
			return false
		}
		inside = inside || d != e
		p.waiting -= len(d.ask.Args) + len(d.answer) + overhead
		return true
	})
	if e.stored {
		p.steps.deletes = append(p.steps.deletes, e.number)
		p.kept -= e.inner + len(e.ask.Args) + overhead
	}
	return inside
}

// endStep replaces the entries of a step by its value.
func (p *pending) endStep(e *entry, v StepValue) {
	inside := p.removeStep(e)
	var k StepKey
	_ = json.Unmarshal(e.ask.Args, &k) // written by BeginStep
	g := stepGroup{Parent: k.Parent, Name: k.Name, First: k.N, Drew: v.Drew, Values: []json.RawMessage{v.JSON}}
	if inside || p.last > e.number {
		g.Number = e.number
	}
	s := &p.steps
	s.row = e.number
	if n := len(s.ended) - 1; n >= 0 && s.ended[n].precedes(g) {
		s.ended[n].Values = append(s.ended[n].Values, v.JSON)
	} else {
		s.ended = append(s.ended, g)
	}
	p.grow(len(v.JSON) + len(k.Name) + overhead/2)
}

// endedSteps returns the entry of the ended steps.
func (p *pending) endedSteps() entry {
	b, err := json.Marshal(p.steps.ended)
	if err != nil { // cannot happen: the values are JSON
		panic(err)
	}
	return entry{number: p.steps.row, ask: HostCall{Method: methodSteps}, state: answered, answer: b}
}
