// Package question holds the open questions of one execution: those of the code, of a
// server during a call, and of Sandpiper, whether a call may be made. It checks that a
// form can represent them and that answers fit the form.
//
// A Set is safe for concurrent use. The package neither shows questions nor stores them.
package question

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Question is a question to the user: from the code, from a server during a call, or
// from Sandpiper, whether a call may be made. Text and schema come from the asker. It is
// a plain value that survives JSON.
type Question struct {
	ID       string          `json:"id"`                    // unique within its execution
	From     string          `json:"from,omitempty"`        // the tool whose server asks or that is to be called; "" if the code asks
	Approval string          `json:"approval_id,omitempty"` // id in package approval, if Sandpiper asks; only the user may answer it
	Call     int             `json:"call,omitempty"`        // number of a call whose outcome is unknown, if Sandpiper asks about it
	Text     string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitempty"` // an object with plain properties
	// Request is the id in package approval of a question about a Call, if the person can answer there too.
	Request string `json:"-"`
	// Of is the number of the call and of the server's question during it; "" if the call has no record.
	Of string `json:"-"`
	// Expires is when the question is no longer open, for Add, which moves it to Open; zero means after TTL.
	Expires time.Time `json:"-"`
	// Asker describes the code and the client that ask for an approval, for the person: the model knows both.
	Asker string `json:"-"`
}

// Only returns the only property of the schema, or the only one that is required; "" if there are
// several.
func (q Question) Only() string {
	var form struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(q.Schema, &form) != nil {
		return ""
	}
	if len(form.Required) == 1 {
		return form.Required[0]
	}
	for name := range form.Properties {
		if len(form.Properties) == 1 {
			return name
		}
	}
	return ""
}

// Fill returns value as the content of an answer: a bare value becomes the property Only.
func (q Question) Fill(value json.RawMessage) json.RawMessage {
	name := q.Only()
	var whole map[string]json.RawMessage
	if name == "" || json.Unmarshal(value, &whole) == nil && whole[name] != nil {
		return value
	}
	if content, err := json.Marshal(map[string]json.RawMessage{name: value}); err == nil {
		return content
	}
	return value
}

// Check returns an Invalid error if a reply does not fit the schema of the question.
func (q Question) Check(r tool.Reply) error {
	form, err := ParseForm(q.Schema)
	if err != nil {
		return err
	}
	return (&Open{Question: q, form: form}).check(r)
}

// Answer maps question ids to replies; it may leave questions open.
type Answer map[string]tool.Reply

// Limits on questions.
const (
	maxText   = 4 << 10  // bytes of the text
	maxSchema = 16 << 10 // bytes
	maxOpen   = 16       // questions of one execution
)

// CheckText rejects the text of a question that is empty or too long.
func CheckText(text string) error {
	if text = strings.TrimSpace(text); text == "" || len(text) > maxText {
		return fault.New(fault.Invalid, "the question has %d bytes; it must have between 1 and %d", len(text), maxText)
	}
	return nil
}
