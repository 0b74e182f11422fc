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

// Question is what code asks the person who uses it, or a server during a call
// that the code makes: text and schema come from who asks. Or it is ours, whether a
// call may be made.
type Question struct {
	ID       string          `json:"id"`                    // within its execution
	From     string          `json:"from,omitempty"`        // the tool whose server asks, or that is to be called; "" if the code asks
	Approval string          `json:"approval_id,omitempty"` // of package approval, if we ask; only the person answers it
	Text     string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitempty"` // of an object with plain properties
}

// Fill returns value as the content of an answer: a bare value goes where the
// schema has its only property.
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

// What a person does about a question.
type (
	Action = tool.Action
	Reply  = tool.Reply
)

const (
	Accept  = tool.Accept
	Decline = tool.Decline
	Cancel  = tool.Cancel
)

// Answer are replies by the ids of their questions; it may leave some open.
type Answer map[string]Reply

// Bounds on what code asks.
const (
	maxQuestion = 4 << 10  // bytes of the text
	maxSchema   = 16 << 10 // bytes
	maxOpen     = 16       // questions of one execution
)

// questions are those of one execution.
type questions struct {
	lock   sync.Mutex
	number int // of the last
	named  int // of the last that has a name; beyond number after a second run
	list   []*openQuestion
}

type openQuestion struct {
	Question
	schema   *jsonschema.Resolved
	exit     *redact.Exit // that an answer comes in by
	answered bool
	reply    chan Reply    // takes one
	gone     chan struct{} // closed when it is not open any more
}

// name is that of the next question.
func (q *questions) name() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.named++
	return q.named
}

// add opens a question. One about an approval is known by the id of that: an answer
// that is given later, to the daemon after the one that asked say, is for what the
// person was shown and for nothing that another run has put under the same number.
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
	one := &openQuestion{Question: asked, schema: resolved, exit: exit, reply: make(chan Reply, 1), gone: make(chan struct{})}
	q.list = append(q.list, one)
	return one, nil
}

func (q *questions) remove(one *openQuestion) {
	q.lock.Lock()
	defer q.lock.Unlock()
	q.list = slices.DeleteFunc(q.list, func(o *openQuestion) bool { return o == one })
	one.close()
}

// close says that a question is not open any more. The caller holds the lock.
func (o *openQuestion) close() {
	if !o.answered {
		o.answered = true
		close(o.gone)
	}
}

// shut closes a question without an answer.
func (q *questions) shut(id string) {
	q.lock.Lock()
	defer q.lock.Unlock()
	if o := q.find(id); o != nil {
		o.close()
	}
}

// closed is closed once the question of an id is not open any more.
func (q *questions) closed(id string) <-chan struct{} {
	q.lock.Lock()
	defer q.lock.Unlock()
	if o := q.find(id); o != nil {
		return o.gone
	}
	now := make(chan struct{})
	close(now)
	return now
}

// asked is the number of the last question.
func (q *questions) asked() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return q.number
}

// open are the questions that nobody has answered, and the number of the last
// one that was asked.
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

// inward is an answer with values in place of tokens: what somebody chose or wrote
// is what they were shown.
func (q *questions) inward(ctx context.Context, a Answer) (Answer, error) {
	all := Answer{}
	for id, r := range a {
		q.lock.Lock()
		o := q.find(id)
		q.lock.Unlock()
		if o != nil {
			var err error
			if r.Content, err = o.exit.RestoreVariables(ctx, r.Content); err != nil {
				return nil, err
			}
		}
		all[id] = r
	}
	return all, nil
}

// answer hands each reply to its question, or none if one of them does not fit.
func (q *questions) answer(ctx context.Context, a Answer) error {
	a, err := q.inward(ctx, a)
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
		return fault.Wrap(fault.Invalid, err, "the answer to %s is no JSON", o.ID)
	}
	if err := o.schema.Validate(content); err != nil {
		return fault.Wrap(fault.Invalid, err, "the answer to %s does not fit its schema %s", o.ID, o.Schema)
	}
	return nil
}

// Questions are the open ones of an execution of the tenant.
func (r *Runner) Questions(home *home.Home, id string) ([]Question, error) {
	x, err := r.find(home, id)
	if err != nil {
		return nil, err
	}
	open, _ := x.questions.open()
	return open, nil
}

// tell wakes whoever waits for something new of the execution.
func (x *run) tell() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wake()
}
