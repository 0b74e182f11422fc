package execution

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Question is a question to the user: from the code, from a server during a call, or
// from Sandpiper, whether a call may be made. Text and schema come from the asker.
type Question struct {
	ID       string          `json:"id"`                    // unique within its execution
	From     string          `json:"from,omitempty"`        // the tool whose server asks or that is to be called; "" if the code asks
	Approval string          `json:"approval_id,omitempty"` // id in package approval, if Sandpiper asks; only the user may answer it
	Text     string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitempty"` // an object with plain properties
}

// Fill returns value as the content of an answer: a bare value becomes the schema's
// only property.
func (q Question) Fill(value json.RawMessage) json.RawMessage {
	var form struct{ Properties map[string]json.RawMessage }
	if json.Unmarshal(q.Schema, &form) != nil || len(form.Properties) != 1 {
		return value
	}
	for name := range form.Properties {
		var whole map[string]json.RawMessage
		if json.Unmarshal(value, &whole) == nil && whole[name] != nil {
			return value
		}
		if content, err := json.Marshal(map[string]json.RawMessage{name: value}); err == nil {
			return content
		}
	}
	return value
}

// The user's response to a question.
type (
	Action = tool.Action
	Reply  = tool.Reply
)

const (
	Accept  = tool.Accept
	Decline = tool.Decline
	Cancel  = tool.Cancel
)

// Answer maps question ids to replies; it may leave questions open.
type Answer map[string]Reply

// Limits on questions.
const (
	maxQuestion = 4 << 10  // bytes of the text
	maxSchema   = 16 << 10 // bytes
	maxOpen     = 16       // questions of one execution
)

// questions are the questions of one execution.
type questions struct {
	lock     sync.Mutex
	number   int // of the last question
	lastName int // of the last numbered name; exceeds number in a resumed run
	list     []*openQuestion
}

type openQuestion struct {
	Question
	schema   *jsonschema.Resolved
	exit     *redact.Exit // restores values in answers
	answered bool
	reply    chan Reply    // buffered for one
	closed   chan struct{} // closed when the question is no longer open
}

// nextName returns the number for the id of the next question.
func (q *questions) nextName() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.lastName++
	return q.lastName
}

// add opens a question. One about an approval has the approval's id, so that a later
// answer, for example to the next daemon, belongs to what the user was shown, and not to
// a question of another run with the same number.
func (q *questions) add(asked Question, resolved *jsonschema.Resolved, exit *redact.Exit) (*openQuestion, error) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if len(q.list) == maxOpen {
		return nil, fault.New(fault.Exhausted, "%d questions are open already; ask fewer at once", maxOpen)
	}
	q.number++
	if asked.Approval != "" {
		asked.ID = asked.Approval
	}
	one := &openQuestion{Question: asked, schema: resolved, exit: exit, reply: make(chan Reply, 1), closed: make(chan struct{})}
	q.list = append(q.list, one)
	return one, nil
}

func (q *questions) remove(one *openQuestion) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.list = slices.DeleteFunc(q.list, func(o *openQuestion) bool { return o == one })
	one.close()
}

// close marks the question as closed. The caller holds the lock.
func (o *openQuestion) close() {
	if !o.answered {
		o.answered = true
		close(o.closed)
	}
}

// closeByID closes a question without an answer.
func (q *questions) closeByID(id string) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if o := q.find(id); o != nil {
		o.close()
	}
}

// closed returns a channel that is closed once the question is no longer open.
func (q *questions) closed(id string) <-chan struct{} {
	q.lock.Lock()
	defer q.lock.Unlock()
	if o := q.find(id); o != nil {
		return o.closed
	}
	now := make(chan struct{})
	close(now)
	return now
}

// lastNumber returns the number of the last question.
func (q *questions) lastNumber() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.number
}

// open returns the unanswered questions, and the number of the last question.
func (q *questions) open() (open []Question, last int) {
	q.lock.Lock()
	defer q.lock.Unlock()
	for _, o := range q.list {
		if !o.answered {
			open = append(open, o.Question)
		}
	}
	return open, q.number
}

// restoreValues replaces tokens in an answer by their values: the code receives what
// the user saw and chose.
func (q *questions) restoreValues(ctx context.Context, a Answer) (Answer, error) {
	all := Answer{}
	for id, r := range a {
		q.lock.Lock()
		o := q.find(id)
		q.lock.Unlock()
		if o != nil {
			var err error
			if r.Content, err = o.exit.Restorer().Variables(ctx, r.Content); err != nil {
				return nil, err
			}
		}
		all[id] = r
	}
	return all, nil
}

// answer delivers each reply to its question, or none if one of them is invalid.
func (q *questions) answer(ctx context.Context, a Answer) error {
	a, err := q.restoreValues(ctx, a)
	if err != nil {
		return err
	}
	q.lock.Lock()
	defer q.lock.Unlock()
	for id, r := range a {
		o := q.find(id)
		if o == nil {
			return fault.New(fault.NotFound, "there is no open question %.40q: it was answered, or never asked", id)
		}
		if err := o.check(r); err != nil {
			return err
		}
	}
	for id, r := range a {
		o := q.find(id)
		o.close()
		o.reply <- r
	}
	return nil
}

func (q *questions) find(id string) *openQuestion {
	for _, o := range q.list {
		if o.ID == id && !o.answered {
			return o
		}
	}
	return nil
}

func (o *openQuestion) check(r Reply) error {
	switch r.Action {
	case Decline, Cancel:
		return nil
	case Accept:
	default:
		return fault.New(fault.Invalid, "the action of the answer to %s is %.40q; it must be accept, decline or cancel", o.ID, r.Action)
	}
	var content any
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return fault.Wrap(fault.Invalid, err, "the answer to %s is not valid JSON", o.ID)
	}
	if err := o.schema.Validate(content); err != nil {
		return fault.Wrap(fault.Invalid, err, "the answer to %s does not fit its schema %s", o.ID, o.Schema)
	}
	return nil
}

// Questions returns the open questions of an execution of the tenant.
func (r *Runner) Questions(home *home.Home, id string) ([]Question, error) {
	x, err := r.find(home, id)
	if err != nil {
		return nil, err
	}
	open, _ := x.questions.open()
	return open, nil
}

// notify wakes the handles of the execution.
func (x *run) notify() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notifyLocked()
}
