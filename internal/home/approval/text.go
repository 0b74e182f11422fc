package approval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/preview"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Form is the JSON schema of the form that approves exactly one call or plan.
const Form = `{"type":"object","properties":{` + formFields + `},"required":["approve"]}`

const formFields = `"approve":{"type":"boolean","title":"Approve","description":"Yes allows exactly this, once"},` + formReason

const formReason = `"reason":{"type":"string","title":"Reason","description":"The reason, which the caller receives","maxLength":1000}`

// FormOf returns the JSON schema of the form for a request: it offers the scopes that its approval may have.
func FormOf(r Request) json.RawMessage {
	scopes := r.Scopes()
	if len(scopes) == 1 {
		return json.RawMessage(Form)
	}
	names, titles := []string{}, []string{}
	for _, s := range scopes {
		names, titles = append(names, cmp.Or(string(s), once)), append(titles, r.Effect(s))
	}
	choice, err := json.Marshal(map[string]any{
		"type": "string", "title": "For", "description": "If approved: only this call, or also further calls of the tool, with ANY " +
			"arguments",
		"enum": names, "enumNames": titles, "default": once,
	})
	if err != nil { // strings only
		panic(err)
	}
	return json.RawMessage(`{"type":"object","properties":{"approve":{"type":"boolean","title":"Approve","description":"Yes allows the ` +
		`call"},"for":` +
		string(choice) + `,` + formReason + `},"required":["approve"]}`)
}

// once is grant.Once in forms.
const once = "once"

// Effect describes what an approval with a scope allows.
func (r Request) Effect(s grant.Scope) string {
	calls := "also every other call of " + name(r.Ref.String())
	switch s {
	case grant.Execution:
		return "this execution: " + calls + " by this execution, with ANY arguments"
	case grant.Session:
		return "this session: " + calls + " by session " + name(r.Session) + " until its interpreter ends, with ANY arguments"
	case grant.Tool:
		return "always: " + calls + " by all code and clients of this tenant, with ANY arguments. This adds the rule " +
			Escape(grant.Rule(r.Ref))
	}
	return "once: exactly this call"
}

// NotAsked begins the note of a denial if there was no way to ask a person.
const NotAsked = "nobody could be asked"

// Unattended reports whether the answer is a denial because there was no way to ask a person.
func (a Answer) Unattended() bool { return !a.Approve && strings.HasPrefix(a.Note, NotAsked) }

// ParseReply returns the answer in a reply to a question with Form. A dismissed question is a
// denial.
func ParseReply(r tool.Reply) Answer {
	a := Answer{By: cmp.Or(r.By, Client), Asked: true}
	var form struct {
		Approve bool
		Reason  string
		For     string
	}
	if r.Action == tool.Cancel {
		a.Note = "the question was dismissed"
	}
	if r.Action == tool.Accept && json.Unmarshal(r.Content, &form) == nil {
		a.Approve, a.Note = form.Approve, form.Reason
		scope, err := grant.ParseScope(form.For)
		if a.Scope = scope; err != nil { // no form offers it
			a.Approve = false
		}
	}
	return a
}

// Text returns the question as text for a person. Text of code and servers cannot imitate the
// question itself: names are quoted on one line, JSON is an indented block, and invisible
// characters are escaped.
func (r Request) Text(hints tool.Hints) string {
	var b strings.Builder
	if r.Kind == Outcome {
		fmt.Fprintf(&b, "The execution ended during call %d, of %s, before its answer: it is unknown whether it took effect.\n",
			r.Occurrence, name(r.Ref.String()))
	} else if r.Kind == Plan {
		b.WriteString("A dry run planned these calls. Approval makes all of them, in this order. " +
			"null marks a value that is taken from the result of an earlier call, as references describes.\n")
	} else {
		who := "The client's model"
		if r.Execution != "" {
			who = "The code that is running"
		}
		fmt.Fprintf(&b, "%s wants to call the tool %s of the server %s.\n", who, name(r.Tool), name(r.Server))
		fmt.Fprintf(&b, "You are asked because of the policy (rule %s)%s.\n", name(r.Rule), reasonText(r.Reason))
	}
	if text := hintText(hints); text != "" {
		fmt.Fprintf(&b, "The tool is marked %s.\n", text)
	}
	sent := "will be sent"
	if r.Kind == Outcome {
		sent = "was sent"
	}
	fmt.Fprintf(&b, "This is what %s:\n\n%s\n\n", sent, r.block())
	fmt.Fprintf(&b, "Approval %s, until %s.", r.ID, r.Expires.Format(time.RFC3339))
	return b.String()
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + Escape(reason)
}

// hintText describes the trusted annotations.
func hintText(h tool.Hints) string {
	var all []string
	for _, m := range []struct {
		set     *bool
		yes, no string
	}{
		{h.Destructive, "destructive", "not destructive"},
		{h.ReadOnly, "read-only", "not read-only"},
		{h.Idempotent, "idempotent", "not idempotent"},
		{h.OpenWorld, "open-world", "closed-world"},
	} {
		switch {
		case m.set == nil:
		case *m.set:
			all = append(all, m.yes)
		default:
			all = append(all, m.no)
		}
	}
	return strings.Join(all, ", ")
}

// Limits of a question. A notice reports that something is omitted; `approvals show` prints all of it.
const maxName = 200 // bytes of a name

// formLimits are the limits of the arguments in a form.
var formLimits = preview.Limits{Text: 1000, Rows: 5, Size: 4 << 10}

// block returns the arguments, indented and shortened.
func (r Request) block() string {
	text, left := r.Preview(formLimits)
	if left {
		text += fmt.Sprintf("\n\nThis is NOT ALL of the %d bytes: `sandpiper approvals show %s` prints the rest.", len(r.Shown), r.ID)
	}
	return text
}

// plannedCall is a call of a plan.
type plannedCall struct {
	Call       int    `json:"call"`
	Server     string `json:"server"`
	Tool       string `json:"tool"`
	Arguments  any    `json:"arguments"`
	References any    `json:"references,omitempty"`
}

// Preview returns the arguments as a block of lines with four leading spaces, which no content can
// end. left reports whether something is left out; without Limits nothing is.
func (r Request) Preview(l preview.Limits) (text string, left bool) {
	v, err := r.value()
	if err != nil {
		return preview.Indent + Escape(string(r.Shown)), false
	}
	return preview.Of(v, l)
}

// value decodes the arguments. A field of a plan that plannedCall lacks is an error, because the
// person must see all of them.
func (r Request) value() (any, error) {
	dec := json.NewDecoder(bytes.NewReader(r.Shown))
	dec.UseNumber()
	if r.Kind == Plan {
		var calls []plannedCall
		dec.DisallowUnknownFields()
		err := dec.Decode(&calls)
		return objects(calls), err
	}
	var v any
	err := dec.Decode(&v)
	return v, err
}

// objects returns the calls of a plan as a person sees them.
func objects(calls []plannedCall) []preview.Object {
	var all []preview.Object
	for _, c := range calls {
		o := preview.Object{{Name: "call", Value: c.Call}, {Name: "server", Value: c.Server}, {Name: "tool", Value: c.Tool},
			{Name: "arguments", Value: c.Arguments}}
		if c.References != nil {
			o = append(o, preview.Member{Name: "references", Value: c.References})
		}
		all = append(all, o)
	}
	return all
}

// name quotes a name that is not ours.
func name(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return `"` + strings.ReplaceAll(Escape(s), `"`, `\"`) + `"`
}

// Escape escapes the characters of a text that are not visible as themselves.
func Escape(s string) string { return preview.Escape(s) }
