package approval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Form is the JSON schema of the approval form.
const Form = `{"type":"object","properties":{` +
	`"approve":{"type":"boolean","title":"Approve","description":"Yes allows exactly this, once"},` +
	`"reason":{"type":"string","title":"Reason","description":"The reason, which the caller receives","maxLength":1000}` +
	`},"required":["approve"]}`

// NotAsked begins the note of a denial if there was no way to ask a person.
const NotAsked = "nobody could be asked"

// ParseReply returns the answer in a reply to a question with Form. A dismissed question is a
// denial.
func ParseReply(r tool.Reply) Answer {
	a := Answer{By: cmp.Or(r.By, Client)}
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

// Text returns the question as text for a person. Text of code and servers cannot imitate the
// question itself: names are quoted on one line, JSON is an indented block, and invisible
// characters are escaped.
func (r Request) Text(hints tool.Hints) string {
	var b strings.Builder
	if r.Kind == Plan {
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
	fmt.Fprintf(&b, "This is what will be sent:\n\n%s\n\n", r.block())
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

// Limits of a question, in bytes. A notice reports that text is omitted; `approvals show` prints
// all of it.
const (
	maxName  = 200     // of a name
	maxText  = 1000    // of one string in the arguments
	maxShown = 4 << 10 // of the arguments
)

// block returns the arguments, indented and truncated.
func (r Request) block() string {
	text, cut := r.Indented(maxText)
	if len(text) > maxShown {
		text, cut = strings.ToValidUTF8(text[:maxShown], ""), true
	}
	if cut {
		text += fmt.Sprintf("\n\nThis is NOT ALL of the %d bytes: `sandpiper approvals show %s` prints the rest.", len(r.Shown), r.ID)
	}
	return text
}

// plannedCall is a call of a plan. The order of its fields is the order in which they are shown.
type plannedCall struct {
	Call       int    `json:"call"`
	Server     string `json:"server"`
	Tool       string `json:"tool"`
	Arguments  any    `json:"arguments"`
	References any    `json:"references,omitempty"`
}

// Indented returns the arguments as a block of lines with four leading spaces, which no content
// can end; Markdown renders it verbatim. Strings of more than most bytes are truncated, and cut
// reports whether one was; 0 means no limit.
func (r Request) Indented(most int) (text string, cut bool) {
	v, err := r.value()
	if err != nil {
		return block + Escape(string(r.Shown)), false
	}
	if most > 0 {
		v = truncate(v, most, &cut)
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

// value decodes the arguments. A field of a plan that plannedCall lacks is an error, because the
// person must see all of them.
func (r Request) value() (any, error) {
	dec := json.NewDecoder(bytes.NewReader(r.Shown))
	dec.UseNumber()
	if r.Kind == Plan {
		var calls []plannedCall
		dec.DisallowUnknownFields()
		err := dec.Decode(&calls)
		return calls, err
	}
	var v any
	err := dec.Decode(&v)
	return v, err
}

// truncate truncates the strings in a value.
func truncate(v any, most int, cut *bool) any {
	switch v := v.(type) {
	case []plannedCall:
		for i := range v {
			v[i].Arguments, v[i].References = truncate(v[i].Arguments, most, cut), truncate(v[i].References, most, cut)
		}
	case string:
		if len(v) > most {
			*cut = true
			return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(v[:most], ""), len(v))
		}
	case []any:
		for i := range v {
			v[i] = truncate(v[i], most, cut)
		}
	case map[string]any:
		for k := range v {
			v[k] = truncate(v[k], most, cut)
		}
	}
	return v
}

// name quotes a name that is not ours.
func name(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return `"` + strings.ReplaceAll(Escape(s), `"`, `\"`) + `"`
}

// Escape escapes the characters of a text that are not visible as themselves: line ends, changes
// of direction, zero-width characters and control characters of terminals.
func Escape(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case visible(r):
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

func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r)
}
