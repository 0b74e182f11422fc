package lookup

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// Limits of a Compact definition, in characters.
const (
	maxSummary  = 80  // of the description
	maxArgument = 48  // of an argument's text
	minTexts    = 110 // of all texts, and perArgument more for each argument
	perArgument = 12

	maxResultExample = 60 // tokens
)

// Compact describes a tool in few tokens: the part that its stub in a Brief lacks. Names.Schemas asks for
// the complete Definition.
type Compact struct {
	Signature   string   `json:"signature"` // servers.github.list_issues(owner: str, page=1) -> {number: int, …}
	Description string   `json:"description,omitempty"`
	Arguments   []string `json:"arguments,omitempty"` // constraints that the signature lacks; "…" ends a text that is cut
	Inferred    bool     `json:"inferred,omitempty"`  // the result in Signature was inferred from results
	// ResultExample is that of a Definition, and shorter.
	ResultExample string   `json:"result_example,omitempty"`
	Quarantined   string   `json:"held,omitempty"`
	Others        []string `json:"others,omitempty"`
}

// compact returns the Compact definition of a connected tool.
func compact(d Definition) Compact {
	from, function, _ := strings.Cut(strings.TrimPrefix(d.Import, "from "), " import ")
	s := codegen.Typed(d.of, function)
	c := Compact{Signature: from + "." + s.Complete, Inferred: d.Inferred, Quarantined: d.Quarantined, Others: d.Others}
	if s.Result != "" {
		c.Signature += " -> " + s.Result
	}
	if d.Inferred {
		c.ResultExample = shortExample(d.of)
	}
	c.Description = cutSentence(d.Description, maxSummary)
	left := minTexts + perArgument*len(d.usage.Arguments) - utf8.RuneCountInString(c.Description)
	for _, line := range d.usage.Arguments {
		name, text, _ := strings.Cut(line, ": ")
		if repeats(name, text) {
			continue
		}
		if left < maxArgument {
			c.Arguments = append(c.Arguments, "…")
			break
		}
		text = name + ": " + cutSentence(text, maxArgument)
		left -= utf8.RuneCountInString(text)
		c.Arguments = append(c.Arguments, text)
	}
	return c
}

// shortExample returns a value like the results of a tool, with as many fields as fit.
func shortExample(d tool.Definition) string {
	for _, fields := range []int{12, 8, 5, 3, 1} {
		if text := codegen.ResultExample(d, fields); text != "" && tokens.Count(text) <= maxResultExample {
			return text
		}
	}
	return ""
}

// repeats reports whether a text about an argument adds little to its name: at most one word.
func repeats(name, text string) bool {
	news := 0
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		switch {
		case strings.ContainsAny(w, "0123456789"): // a limit
			return false
		case len(w) > 3 && !strings.Contains(strings.ToLower(name), strings.TrimSuffix(w, "s")):
			news++
		}
	}
	return news <= 1 && !strings.Contains(text, `"`)
}

// cutSentence returns the sentences of a text that fit into n characters, at least the beginning of the
// first one. It ends with "…" if there is more.
func cutSentence(text string, n int) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, `"`, "'")), " ")
	if utf8.RuneCountInString(text) <= n {
		return strings.TrimSuffix(text, ".")
	}
	if n < 8 {
		return "…"
	}
	short := string([]rune(text)[:n-1])
	if i := strings.LastIndex(short, ". "); i > n/3 {
		return short[:i] + " …"
	}
	if i := strings.LastIndexByte(short, ' '); i > n/2 {
		short = short[:i]
	}
	return strings.TrimRight(short, " ,;:(-") + "…"
}

// Definitions are the answer for several tools.
type Definitions struct {
	Tools []any `json:"tools"` // a Definition, a Compact or an Undefined for each name
}

// Undefined is the reason why a tool has no definition.
type Undefined struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// maxDefinitions limits the names of one request.
const maxDefinitions = 20

// Names is a request for the definitions of tools.
type Names struct {
	Names    json.RawMessage `json:"tool_name"` // a string, or an array of strings
	Category string          `json:"category"`
	Schemas  bool            `json:"schemas"` // with schemas and an example, also if they repeat the signature
}

// DefineNames returns the Definition of a tool, or Definitions if there is an array of names. A
// name without a tool does not fail the others.
func (f *Finder) DefineNames(ctx context.Context, shapes *catalog.Shapes, q Names) (any, error) {
	define := func(name string) (any, error) {
		d, err := f.Define(ctx, shapes, name, q.Category)
		if err != nil || q.Schemas || d.of.Tool == "" { // not connected, or a module
			return d, err
		}
		return compact(d), nil
	}
	var one string
	if json.Unmarshal(q.Names, &one) == nil {
		return define(one)
	}
	var several []string
	if json.Unmarshal(q.Names, &several) != nil || len(several) == 0 || len(several) > maxDefinitions {
		return nil, fault.New(fault.Invalid, "tool_name is %.80s; it must be the name of a tool or an array of 1 to %d names", q.Names,
			maxDefinitions)
	}
	all := Definitions{}
	for _, name := range several {
		d, err := define(name)
		switch {
		case err == nil:
			all.Tools = append(all.Tools, d)
		case fault.KindOf(err) == fault.NotFound:
			all.Tools = append(all.Tools, Undefined{name, fault.Message(err) + "; " + fault.Hint(err)})
		default:
			return nil, err
		}
	}
	return all, nil
}
