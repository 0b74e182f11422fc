package question

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Set contains the questions of one execution. Its zero value is empty.
type Set struct {
	Commands fault.Commands // completes the command that shows all of an approval

	lock     sync.Mutex
	number   int            // of the last question
	lastName int            // of the last numbered name; exceeds number in a resumed run
	again    map[int]string // questions that a resumed run asks again: what identifies them, by number of the name
	list     []*Open
	closed   bool // by CloseAll: a later run asks again
}

// Open is a question that was asked.
type Open struct {
	Question
	Until    time.Time // when it is no longer open, unless it is about an approval: then it ends with that
	form     Form
	restore  Restore
	record   Record
	answered bool
	reply    chan tool.Reply // buffered for one
	closed   chan struct{}   // closed when the question is no longer open
	expire   func()          // closes it unless it has a reply
}

// Restore replaces tokens in the content of an answer by their values: the asker
// receives what the user saw and chose.
type Restore func(context.Context, json.RawMessage) (json.RawMessage, error)

// Record stores a reply before the asker gets it.
type Record func(context.Context, tool.Reply) error

// NextName returns the number for the id of the next question: that which an earlier run gave to the question
// that of identifies, if it was open.
func (s *Set) NextName(of string) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.again)) {
		if s.again[name] == of {
			delete(s.again, name)
			return name
		}
	}
	s.lastName++
	return s.lastName
}

// StartNames sets the number of the last question of an earlier run, and the identities of its open questions, by
// number, so that a resumed execution gives these the same ids again.
func (s *Set) StartNames(last int, open map[int]string) { s.lastName, s.again = last, maps.Clone(open) }

// Expects reports whether a question that was open in an earlier run has not been asked again, or is to be asked by a
// later run.
func (s *Set) Expects(id string) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return true
	}
	for name := range s.again {
		if ID(name) == id {
			return true
		}
	}
	return false
}

// ID returns the id of a question with a number.
func ID(name int) string { return "q" + strconv.Itoa(name) }

// Add opens a question. One about an approval has the approval's id, so that a later
// answer, for example to the next daemon, belongs to the question that the user was shown, and not to
// a question of another run with the same number. A nil record stores nothing. The caller
// must call Remove.
func (s *Set) Add(asked Question, form Form, restore Restore, record Record) (*Open, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.list) == maxOpen {
		return nil, fault.New(fault.Exhausted, "%d questions are open already; ask fewer at once", maxOpen)
	}
	if s.closed {
		return nil, errClosed
	}
	s.number++
	until := asked.Expires
	if asked.Expires = (time.Time{}); until.IsZero() {
		until = time.Now().Add(TTL)
	}
	if asked.Approval != "" {
		show := "`sandpiper approvals show " + asked.Approval + "`" // what else the texts quote is not changed
		whole := s.Commands.Complete(show)
		asked.Text, asked.Asker = strings.ReplaceAll(asked.Text, show, whole), strings.ReplaceAll(asked.Asker, show, whole)
		asked.ID = asked.Approval
	}
	o := &Open{
		Question: asked,
		Until:    until,
		form:     form,
		restore:  restore,
		record:   record,
		reply:    make(chan tool.Reply, 1),
		closed:   make(chan struct{}),
	}
	o.expire = func() {
		s.lock.Lock()
		defer s.lock.Unlock()
		o.close()
	}
	s.list = append(s.list, o)
	return o, nil
}

// Remove closes a question and removes it.
func (s *Set) Remove(o *Open) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.list = slices.DeleteFunc(s.list, func(other *Open) bool { return other == o })
	o.close()
}

// close marks the question as closed. The caller holds the lock.
func (o *Open) close() {
	if !o.answered {
		o.answered = true
		close(o.closed)
	}
}

// Close closes a question without an answer.
func (s *Set) Close(id string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if o := s.find(id); o != nil {
		o.close()
	}
}

// errClosed is the error of a question of an execution whose process ends.
var errClosed = fault.New(fault.Unavailable, "the execution waits without a process")

// CloseAll closes all questions without an answer and returns them, because the process of the execution ends: a
// later run asks them again. If one was answered, and its asker has not removed it, CloseAll does nothing and returns
// false.
func (s *Set) CloseAll() (open []Question, ok bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, o := range s.list {
		if o.answered {
			return nil, false
		}
		open = append(open, o.Question)
	}
	for _, o := range s.list {
		o.close()
	}
	s.closed = true
	return open, true
}

// Closed returns a channel that is closed once the question is no longer open.
func (s *Set) Closed(id string) <-chan struct{} {
	s.lock.Lock()
	defer s.lock.Unlock()
	if o := s.find(id); o != nil {
		return o.closed
	}
	now := make(chan struct{})
	close(now)
	return now
}

// Last returns the number of the last question.
func (s *Set) Last() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.number
}

// List returns the unanswered questions, and the number of the last question.
func (s *Set) List() (open []Question, last int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, o := range s.list {
		if !o.answered {
			open = append(open, o.Question)
		}
	}
	return open, s.number
}

// Answer records each reply and delivers it to its question. It delivers none if one of them is invalid or
// cannot be recorded.
func (s *Set) Answer(ctx context.Context, a Answer) error {
	a, err := s.restoreValues(ctx, a)
	if err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for id, r := range a {
		o := s.find(id)
		if o == nil {
			return fault.New(fault.NotFound, "there is no open question %.40q: it was answered, or never asked", id)
		}
		if err := o.check(r); err != nil {
			return err
		}
	}
	for id, r := range a {
		if o := s.find(id); o.record != nil {
			if err := o.record(ctx, r); err != nil {
				return err
			}
		}
	}
	for id, r := range a {
		o := s.find(id)
		o.close()
		o.reply <- r
	}
	return nil
}

func (s *Set) restoreValues(ctx context.Context, a Answer) (Answer, error) {
	all := Answer{}
	for id, r := range a {
		s.lock.Lock()
		o := s.find(id)
		s.lock.Unlock()
		if o != nil {
			var err error
			if r.Content, err = o.restore(ctx, r.Content); err != nil {
				return nil, err
			}
		}
		all[id] = r
	}
	return all, nil
}

// find returns an open question; nil if there is none. The caller holds the lock.
func (s *Set) find(id string) *Open {
	for _, o := range s.list {
		if o.ID == id && !o.answered {
			return o
		}
	}
	return nil
}

func (o *Open) check(r tool.Reply) error {
	switch r.Action {
	case tool.Decline, tool.Cancel:
		return nil
	case tool.Accept:
	default:
		return fault.New(fault.Invalid, "the action of the answer to %s is %.40q; it must be accept, decline or cancel", o.ID, r.Action)
	}
	var content any
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return fault.Wrap(fault.Invalid, err, "the answer to %s is not valid JSON", o.ID)
	}
	if err := o.form.answers.Validate(content); err != nil {
		return fault.Wrap(fault.Invalid, err, "the answer to %s does not fit its schema %s", o.ID, o.Schema)
	}
	return nil
}

// TTL is how long a question stays open. One about an approval ends with the approval.
const TTL = 24 * time.Hour

// Wait returns the reply; Cancel if none comes in time. An error is that of ctx.
func (o *Open) Wait(ctx context.Context) (tool.Reply, error) {
	timer := time.NewTimer(min(time.Until(o.Until), TTL)) // the clock may have been put back
	defer timer.Stop()
	if o.Approval != "" {
		timer.Stop()
	}
	select {
	case r := <-o.reply:
		return r, nil
	case <-timer.C:
		o.expire() // an answer is not accepted any more
		select {
		case r := <-o.reply:
			return r, nil
		default:
			return tool.Reply{Action: tool.Cancel}, nil
		}
	case <-ctx.Done():
		return tool.Reply{}, context.Cause(ctx)
	}
}
