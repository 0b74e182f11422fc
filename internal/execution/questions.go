package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandpiper-mcp/sandpiper/internal/egress"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tenants"
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
	exit     *egress.Exit // that an answer comes in by
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
func (q *questions) add(asked Question, resolved *jsonschema.Resolved, exit *egress.Exit) (*openQuestion, error) {
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
			if r.Content, err = o.exit.Variables(ctx, r.Content); err != nil {
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

// plain are the types of what a person can fill in.
var plain = []string{"string", "number", "integer", "boolean"}

// askSchema reads the schema that code gave to ask. One that is not of an object
// stands for a property of its own; wrapped says so.
func askSchema(raw json.RawMessage) (schema json.RawMessage, resolved *jsonschema.Resolved, wrapped bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage(`{"type":"string"}`)
	}
	if len(raw) > maxSchema {
		return nil, nil, false, fault.New(fault.Invalid, "the schema has %d bytes; at most %d are allowed", len(raw), maxSchema)
	}
	s, err := parseSchema(raw)
	if err != nil {
		return nil, nil, false, err
	}
	if wrapped = s.Type != "object"; wrapped {
		if s.Type == "" && len(s.Enum) > 0 {
			s.Type = "string" // clients show a choice by it
		}
		s = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"answer": s}, Required: []string{"answer"}}
		if raw, err = json.Marshal(s); err != nil {
			return nil, nil, false, err
		}
	}
	if err := checkForm(s); err != nil {
		return nil, nil, false, err
	}
	resolved, err = s.Resolve(nil)
	if err != nil {
		return nil, nil, false, fault.Wrap(fault.Invalid, err, "the schema is not a JSON schema: %.100q", raw)
	}
	return raw, resolved, wrapped, nil
}

func parseSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the schema is not a JSON schema: %.100q", raw)
	}
	return &s, nil
}

// checkForm refuses what no client shows: a form has plain fields.
func checkForm(s *jsonschema.Schema) error {
	if len(s.Properties) == 0 {
		return fault.New(fault.Invalid, "the schema has no properties to fill in")
	}
	for name, p := range s.Properties {
		items := p.Type == "array" && p.Items != nil && (len(p.Items.Enum) > 0 || len(p.Items.AnyOf) > 0)
		if !slices.Contains(plain, p.Type) && len(p.Enum) == 0 && !items {
			return fault.New(fault.Invalid, "property %.60q of the schema has type %q; a person can be asked for %s, or a choice from an enum",
				name, p.Type, strings.Join(plain, ", "))
		}
	}
	return nil
}

// Questions are the open ones of an execution of the tenant.
func (r *Runner) Questions(home *tenants.Home, id string) ([]Question, error) {
	x, err := r.find(home, id)
	if err != nil {
		return nil, err
	}
	open, _ := x.questions.open()
	return open, nil
}

// askWait is how long a question stays open.
const askWait = 24 * time.Hour

type askArgs struct {
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema"`
}

// asked is what ask returns to the code.
type askAnswer struct {
	Action Action `json:"action"`
	Value  any    `json:"value"`
}

// ask puts a question of the code and waits for its answer.
func (h *host) ask(ctx context.Context, a askArgs) (any, error) {
	if text := strings.TrimSpace(a.Question); text == "" || len(text) > maxQuestion {
		return nil, fault.New(fault.Invalid, "the question has %d bytes; it must have between 1 and %d", len(text), maxQuestion)
	}
	schema, resolved, wrapped, err := askSchema(a.Schema)
	if err != nil {
		return nil, err
	}
	reply, err := h.put(ctx, ctx, Question{Text: a.Question, Schema: schema}, resolved)
	if err != nil {
		return nil, err
	}
	return answerOf(reply, wrapped)
}

// put asks the person and waits for the answer until asking ends. Meanwhile the
// execution's time stands still, and its place belongs to others; who puts the
// question goes on only when there is one again, or ctx ends.
func (h *host) put(ctx, asking context.Context, q Question, resolved *jsonschema.Resolved) (Reply, error) {
	var err error
	if q.Text, err = h.exit.Settle(ctx, q.Text); err != nil {
		return Reply{}, err
	}
	schema, err := h.exit.Settle(ctx, string(q.Schema))
	if err != nil {
		return Reply{}, err
	}
	q.Schema = json.RawMessage(schema)
	name := h.run.questions.name()
	q.ID = fmt.Sprintf("q%d", name)
	number, err := h.run.record.Put(ctx, name)
	if err != nil {
		return Reply{}, err
	}
	one, err := h.run.questions.add(q, resolved, h.exit)
	if err != nil {
		return Reply{}, err
	}
	defer h.run.questions.remove(one)
	h.pause()
	h.run.tell()
	reply, err := one.wait(asking)
	if err == nil {
		h.run.record.Note(number, journal.Answer{})
	}
	if back := h.resume(ctx); err == nil {
		err = back
	}
	return reply, err
}

func (o *openQuestion) wait(ctx context.Context) (Reply, error) {
	timer := time.NewTimer(askWait)
	defer timer.Stop()
	if o.Approval != "" { // which expires by itself
		timer.Stop()
	}
	select {
	case r := <-o.reply:
		return r, nil
	case <-timer.C:
		return Reply{Action: Cancel}, nil
	case <-ctx.Done():
		return Reply{}, context.Cause(ctx)
	}
}

func answerOf(r Reply, wrapped bool) (any, error) {
	if r.Action != Accept {
		return askAnswer{Action: r.Action}, nil
	}
	if !wrapped {
		return askAnswer{r.Action, r.Content}, nil
	}
	var content struct{ Answer json.RawMessage }
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return nil, err
	}
	return askAnswer{r.Action, content.Answer}, nil
}

// tell wakes whoever waits for something new of the execution.
func (x *run) tell() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wake()
}
