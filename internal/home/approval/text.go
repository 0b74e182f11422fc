package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Form is the schema of what a person fills in.
const Form = `{"type":"object","properties":{` +
	`"approve":{"type":"boolean","title":"Approve","description":"Yes lets exactly this be done, once"},` +
	`"reason":{"type":"string","title":"Reason","description":"Why not; whoever asked is told","maxLength":1000}` +
	`},"required":["approve"]}`

// ParseReply reads what a person did about a question with that Form. One who dismisses it
// has not approved.
func ParseReply(r tool.Reply) Answer {
	a := Answer{By: Client}
	var form struct {
		Approve bool
		Reason  string
	}
	if r.Action == tool.Cancel {
		a.Note = "the question was dismissed"
	}
	if r.Action == tool.Accept && json.Unmarshal(r.Content, &form) == nil {
		a.Approve, a.Note = form.Approve, form.Reason
	}
	return a
}

// Text is the question in words, for the person. What code or a server wrote stands
// in it as what it is, and cannot look like more: in one line where it is a name, in
// an indented block where it is JSON, and without a character that is not seen.
func (r Request) Text(hints tool.Hints) string {
	var b strings.Builder
	if r.Kind == Plan {
		b.WriteString("A dry run has planned these calls; they would all be made, in this order. " +
			"null stands where references say what of an earlier call's result goes.\n")
	} else {
		who := "The client's model"
		if r.Execution != "" {
			who = "The code that is running"
		}
		fmt.Fprintf(&b, "%s wants to call the tool %s of the server %s.\n", who, name(r.Tool), name(r.Server))
		fmt.Fprintf(&b, "You are asked because of the policy (rule %s)%s.\n", name(r.Rule), because(r.Reason))
	}
	if marks := marks(hints); marks != "" {
		fmt.Fprintf(&b, "The tool is marked %s.\n", marks)
	}
	fmt.Fprintf(&b, "This is what will be sent:\n\n%s\n\n", r.block())
	fmt.Fprintf(&b, "Approval %s, until %s.", r.ID, r.Expires.Format(time.RFC3339))
	return b.String()
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + Escape(reason)
}

// marks are the annotations that count, in words.
func marks(h tool.Hints) string {
	var all []string
	for _, m := range []struct {
		set     *bool
		yes, no string
	}{
		{h.Destructive, "destructive", "not destructive"},
		{h.ReadOnly, "read-only", "not read-only"},
		{h.Idempotent, "idempotent", "not idempotent"},
		{h.OpenWorld, "open to the world", "closed to the world"},
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

// Bounds on what a question shows. What is left out is said, and `approvals show`
// has it.
const (
	mostName  = 200     // bytes of a name
	mostText  = 1000    // bytes of one text in the arguments
	mostShown = 4 << 10 // bytes of the arguments
)

// block is what is shown, indented and bounded.
func (r Request) block() string {
	text, cut := r.Indented(mostText)
	if len(text) > mostShown {
		text, cut = strings.ToValidUTF8(text[:mostShown], ""), true
	}
	if cut {
		text += fmt.Sprintf("\n\nThis is NOT ALL of it, which has %d bytes: `sandpiper approvals show %s` prints the rest.", len(r.Shown), r.ID)
	}
	return text
}

// planned is a call of a plan as people read it: first which, then with what.
type planned struct {
	Call       int    `json:"call"`
	Server     string `json:"server"`
	Tool       string `json:"tool"`
	Arguments  any    `json:"arguments"`
	References any    `json:"references,omitempty"`
}

// Indented is what is shown as a block of lines, which nothing in it can end: they
// begin with four spaces, by which Markdown too takes them as they stand. Of texts of
// more than most bytes it has the beginning, and cut says so; 0 means all.
func (r Request) Indented(most int) (text string, cut bool) {
	v, err := r.value()
	if err != nil {
		return block + Escape(string(r.Shown)), false
	}
	if most > 0 {
		v = shortened(v, most, &cut)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(block, "  ")
	if err := enc.Encode(v); err != nil {
		return block + Escape(string(r.Shown)), false
	}
	lines := strings.Split(block+strings.TrimRight(b.String(), "\n"), "\n")
	for i, l := range lines {
		lines[i] = Escape(l)
	}
	return strings.Join(lines, "\n"), cut
}

const block = "    "

// value is what is shown, decoded. What a plan has and planned lacks is an error,
// since all of it is to be seen.
func (r Request) value() (any, error) {
	dec := json.NewDecoder(bytes.NewReader(r.Shown))
	dec.UseNumber()
	if r.Kind == Plan {
		var calls []planned
		dec.DisallowUnknownFields()
		err := dec.Decode(&calls)
		return calls, err
	}
	var v any
	err := dec.Decode(&v)
	return v, err
}

// shortened is a value with the beginnings of its long texts.
func shortened(v any, most int, cut *bool) any {
	switch v := v.(type) {
	case []planned:
		for i := range v {
			v[i].Arguments, v[i].References = shortened(v[i].Arguments, most, cut), shortened(v[i].References, most, cut)
		}
	case string:
		if len(v) > most {
			*cut = true
			return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(v[:most], ""), len(v))
		}
	case []any:
		for i := range v {
			v[i] = shortened(v[i], most, cut)
		}
	case map[string]any:
		for k := range v {
			v[k] = shortened(v[k], most, cut)
		}
	}
	return v
}

// name is a name of others in quotes.
func name(s string) string {
	if len(s) > mostName {
		s = strings.ToValidUTF8(s[:mostName], "") + "…"
	}
	return `"` + strings.ReplaceAll(Escape(s), `"`, `\"`) + `"`
}

// Escape writes out every character of a text that is not seen as itself: those that
// end a line, turn its direction, take no room or steer a terminal.
func Escape(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case seen(r):
			b.WriteString(rest[:size])
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		rest = rest[size:]
	}
	return b.String()
}

func seen(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}
