package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// replay has the records of earlier runs of the code. The lock of the record guards it.
type replay struct {
	concurrent bool // the code may make several host calls at once
	closed     bool // no call is made that is not on record

	past    map[key][]*entry         // calls that were not repeated yet
	left    []*entry                 // the same calls in order
	steps   map[StepKey]recordedStep // that have ended and were not repeated yet
	parents map[int]bool             // recorded steps that have ended and may contain others
	moved   chan struct{}            // closed when a call or step is repeated
	differs error                    // the Divergence, once detected

	clock   []int64              // clock readings
	clocks  []clockReadings      // the same by step
	put     int                  // number of the last question
	waited  map[int]string       // questions without an answer: what identifies them, by number
	unasked map[int]*entry       // those of waited that the code has not asked again, by number
	until   map[string]time.Time // when these are no longer open, by what identifies them
	replies []*entry             // replies that the code has not got
	skills  map[string]usedSkill
}

type recordedStep struct {
	StepValue
	row int
}

// clockReadings are clock readings of the code in a step.
type clockReadings struct {
	step int
	read []int64
}

func newReplay(concurrent bool) replay {
	return replay{concurrent: concurrent, past: map[key][]*entry{}, steps: map[StepKey]recordedStep{}, parents: map[int]bool{},
		moved: make(chan struct{}), waited: map[int]string{}, unasked: map[int]*entry{}, until: map[string]time.Time{},
		skills: map[string]usedSkill{}}
}

// recall adds a recorded entry to those that the replay has to repeat.
func recall(r *Record, e *entry) (err error) {
	r.pending.last = max(r.pending.last, e.number)
	p := &r.replay
	switch e.ask.Method {
	case methodSteps:
		last, err := p.addSteps(e)
		r.pending.last = max(r.pending.last, last)
		return err
	case readings:
		var some []int64
		err = json.Unmarshal(e.answer, &some)
		p.clock = append(p.clock, some...)
		p.clocks = append(p.clocks, clockReadings{e.ask.Step, some})
	case question:
		return recallQuestion(r, e)
	case skillUsed:
		s := usedSkill{number: e.number, past: true}
		err = json.Unmarshal(e.answer, &s)
		p.skills[s.Name] = s
	default:
		k := e.ask.key()
		p.past[k] = append(p.past[k], e)
		p.left = append(p.left, e)
	}
	return err
}

// recallQuestion adds a recorded question. One with a reply stays open for TakeReply.
func recallQuestion(r *Record, e *entry) error {
	var name int
	var of string
	var until int64
	_, err := fmt.Sscan(string(e.ask.Args), &name, &of, &until)
	if r.replay.put = max(r.replay.put, name); err != nil || e.state == answered {
		return err
	}
	if e.state == replied {
		r.pending.open[e.number] = e
		r.replay.replies = append(r.replay.replies, e)
		return nil
	}
	r.replay.waited[name], r.replay.until[of] = of, time.UnixMilli(until)
	r.replay.unasked[name] = e
	return nil
}

// endUnasked ends the question with a number, which the code asks again, and those that it has not asked when all calls are
// repeated. Until then they are open on record, so that answers to them are kept.
func endUnasked(r *Record, name int) {
	for n, e := range r.replay.unasked {
		if n == name || r.replay.repeated() {
			delete(r.replay.unasked, n)
			r.pending.answer(e, Answer{})
		}
	}
}

// addSteps adds the ended steps of a row. It returns the largest number of a step among them.
func (p *replay) addSteps(e *entry) (last int, err error) {
	var groups []stepGroup
	if err := json.Unmarshal(e.answer, &groups); err != nil {
		return 0, err
	}
	for _, g := range groups {
		for i, v := range g.Values {
			p.steps[StepKey{g.Parent, g.Name, g.First + i}] = recordedStep{StepValue{bytes.Clone(v), g.Drew}, e.number}
		}
		if g.Number != 0 {
			p.parents[g.Number] = true
			last = max(last, g.Number)
		}
	}
	return last, nil
}

// dropInner forgets what is on record of ended steps besides their values. A thread that
// outlives its step can record calls after it, and steps in a step share a row with others.
func (p *replay) dropInner() {
	ended := p.parents
	if len(ended) == 0 {
		return
	}
	for k := range p.steps {
		if ended[k.Parent] {
			delete(p.steps, k)
		}
	}
	p.left = slices.DeleteFunc(p.left, func(e *entry) bool { return ended[e.ask.Step] })
	for k, known := range p.past {
		if left := slices.DeleteFunc(known, func(e *entry) bool { return ended[e.ask.Step] }); len(left) < len(known) {
			p.past[k] = left
		}
	}
	p.clock = nil
	for _, c := range p.clocks {
		if !ended[c.step] {
			p.clock = append(p.clock, c.read...)
		}
	}
}

// repeated reports whether all recorded calls and steps were repeated.
func (p *replay) repeated() bool { return len(p.left) == 0 && len(p.steps) == 0 }

// take returns the next recorded call of a key, which is repeated now; nil if there is none.
func (p *replay) take(k key) *entry {
	known := p.past[k]
	if len(known) == 0 {
		return nil
	}
	e := known[0]
	p.past[k] = known[1:]
	if p.left[0] == e {
		p.left = p.left[1:]
	} else {
		p.left = slices.DeleteFunc(p.left, func(o *entry) bool { return o == e })
	}
	p.wake()
	return e
}

// takeStep returns the recorded step with a key, which is repeated now.
func (p *replay) takeStep(k StepKey) (was recordedStep, ok bool) {
	if was, ok = p.steps[k]; ok {
		delete(p.steps, k)
		p.wake()
	}
	return was, ok
}

// wake makes the calls that wait in Next try again.
func (p *replay) wake() {
	close(p.moved)
	p.moved = make(chan struct{})
}

// diverge stops the replay.
func (p *replay) diverge(d *Divergence) error {
	p.differs = d
	p.wake()
	return d
}

// first returns the first recorded call that was not repeated.
func (p *replay) first() *entry {
	if len(p.left) > 0 {
		return p.left[0]
	}
	var first *entry
	for k, s := range p.steps {
		if first == nil || s.row < first.number {
			args, _ := json.Marshal(k)
			first = &entry{number: s.row, ask: HostCall{Method: methodStep, Args: args}}
		}
	}
	return first
}
