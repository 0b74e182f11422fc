package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// fieldTypes are the types of form fields that clients can display.
var fieldTypes = []string{"string", "number", "integer", "boolean"}

// formSchema parses the schema that code passes to ask. A schema of another type than
// object becomes the only property of one; wrapped reports that.
func formSchema(raw json.RawMessage) (schema json.RawMessage, resolved *jsonschema.Resolved, wrapped bool, err error) {
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
			s.Type = "string" // clients need the type to display a choice
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

// checkForm rejects schemas that no client can display: a form has only plain fields.
func checkForm(s *jsonschema.Schema) error {
	if len(s.Properties) == 0 {
		return fault.New(fault.Invalid, "the schema has no properties to fill in")
	}
	for name, p := range s.Properties {
		items := p.Type == "array" && p.Items != nil && (len(p.Items.Enum) > 0 || len(p.Items.AnyOf) > 0)
		if !slices.Contains(fieldTypes, p.Type) && len(p.Enum) == 0 && !items {
			return fault.New(fault.Invalid, "property %.60q of the schema has type %q; it must be %s, or a choice from an enum",
				name, p.Type, strings.Join(fieldTypes, ", "))
		}
	}
	return nil
}

// questionTTL is how long a question stays open.
const questionTTL = 24 * time.Hour

type askArgs struct {
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema"`
}

// askAnswer is the value that ask returns to the code.
type askAnswer struct {
	Action Action `json:"action"`
	Value  any    `json:"value"`
}

// ask handles the ask() call of the code.
func (h *host) ask(ctx context.Context, a askArgs) (any, error) {
	if text := strings.TrimSpace(a.Question); text == "" || len(text) > maxQuestion {
		return nil, fault.New(fault.Invalid, "the question has %d bytes; it must have between 1 and %d", len(text), maxQuestion)
	}
	schema, resolved, wrapped, err := formSchema(a.Schema)
	if err != nil {
		return nil, err
	}
	reply, err := h.askPerson(ctx, ctx, Question{Text: a.Question, Schema: schema}, resolved)
	if err != nil {
		return nil, err
	}
	return askResult(reply, wrapped)
}

// askPerson asks the user and waits for the answer until asking ends. While it waits,
// the clock is paused and the slot in the queue is free for other executions; it
// returns once it has a slot again, or when ctx ends.
func (h *host) askPerson(ctx, asking context.Context, q Question, resolved *jsonschema.Resolved) (Reply, error) {
	var err error
	if q.Text, err = h.exit.Tokens().Promote(ctx, q.Text); err != nil {
		return Reply{}, err
	}
	schema, err := h.exit.Tokens().Promote(ctx, string(q.Schema))
	if err != nil {
		return Reply{}, err
	}
	q.Schema = json.RawMessage(schema)
	name := h.run.questions.nextName()
	q.ID = fmt.Sprintf("q%d", name)
	number, err := h.run.record.AddQuestion(ctx, name)
	if err != nil {
		return Reply{}, err
	}
	one, err := h.run.questions.add(q, resolved, h.exit)
	if err != nil {
		return Reply{}, err
	}
	defer h.run.questions.remove(one)
	h.pause()
	h.run.notify()
	reply, err := one.wait(asking)
	if err == nil {
		h.run.record.SetAnswer(number, journal.Answer{})
	}
	if back := h.resume(ctx); err == nil {
		err = back
	}
	return reply, err
}

func (o *openQuestion) wait(ctx context.Context) (Reply, error) {
	timer := time.NewTimer(questionTTL)
	defer timer.Stop()
	if o.Approval != "" { // the approval has its own expiry
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

func askResult(r Reply, wrapped bool) (any, error) {
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
