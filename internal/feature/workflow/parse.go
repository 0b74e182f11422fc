package workflow

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// MaxBytes limits the size of a file.
const MaxBytes = 1 << 20

// maxSteps limits the number of steps in a file.
const maxSteps = 1000

// maxDepth limits how deep lists and mappings are nested in a file.
const maxDepth = 64

// Parse reads a workflow in YAML or JSON. It reports the errors that it finds, at most 100; the
// workflow is nil if there are any. Its work and memory are proportional to the data.
func Parse(file string, data []byte) (*Workflow, []Finding) {
	w, found := parse(file, data)
	if len(found) > 0 {
		return nil, found
	}
	return w, nil
}

// parse returns a workflow also if there are findings, so that others can be found in the rest of it,
// unless it has no steps or too many.
func parse(file string, data []byte) (*Workflow, []Finding) {
	r := &reader{findings: findings{file: file}, source: data}
	if len(data) > MaxBytes {
		r.add(Pos{1, 1}, "", "the file has %d bytes; at most %d are allowed", len(data), MaxBytes)
		return nil, r.found
	}
	w := document(r)
	if w != nil && (len(w.Steps) == 0 || r.steps > maxSteps) {
		w = nil
	}
	return w, arranged(r.found)
}

// document reads the only document of a file.
func document(r *reader) *Workflow {
	mark := unusedMark(r.source)
	in := &lineReader{rest: hideQuestionMarks(r.source, mark)}
	d := yaml.NewDecoder(in)
	var body *yaml.Node
	for {
		var doc yaml.Node
		err := decodeNode(d, &doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.syntax(err, in.line)
			return nil
		}
		switch n := doc.Content[0]; {
		case n.Kind == yaml.ScalarNode && n.Value == "" && n.Style == 0: // an empty one
		case body != nil:
			r.add(posOf(n), "", "the file has more than one document; only one is allowed")
			return nil
		default:
			body = n
		}
	}
	if body == nil {
		r.add(Pos{1, 1}, "`sandpiper workflow schema` prints the keys", "the file has no workflow")
		return nil
	}
	if prepare(r, body, mark, 1) {
		return r.workflow(body)
	}
	return nil
}

// decodeNode converts panics of the parser to errors.
func decodeNode(d *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("it cannot be read")
		}
	}()
	return d.Decode(n)
}

// prepare restores the text of a node, in which mark replaces question marks, and reports lists and
// mappings that are nested too deep.
func prepare(r *reader, n *yaml.Node, mark string, depth int) bool {
	if depth > maxDepth && len(n.Content) > 0 {
		tooDeep(r, posOf(n))
		return false
	}
	if mark != "" {
		n.Value = strings.ReplaceAll(n.Value, mark, "?")
	}
	for _, inner := range n.Content {
		if !prepare(r, inner, mark, depth+1) {
			return false
		}
	}
	return true
}

// unusedMark returns a character for private use that is not in the source, nor escaped there; "" if
// all of them are.
func unusedMark(source []byte) string {
	const first, last = '\ue000', '\uf8ff'
	used := map[rune]bool{}
	for i, r := range string(source) {
		if r == '\\' && i+1 < len(source) {
			digits := 4
			if source[i+1] == 'U' {
				digits = 8
			}
			n, _ := strconv.ParseUint(string(source[i+2:min(len(source), i+2+digits)]), 16, 31) // 0 if it is no escape
			r = rune(n)
		}
		if r >= first && r <= last {
			used[r] = true
		}
	}
	for r := last; r >= first; r-- {
		if !used[r] {
			return string(r)
		}
	}
	return ""
}

// hideQuestionMarks replaces the question marks that are part of a text by mark, unless it is "". The
// parser follows YAML 1.1, where [really?] is an error.
func hideQuestionMarks(source []byte, mark string) []byte {
	if mark == "" {
		return source
	}
	var b bytes.Buffer
	before := byte('\n') // the last character that is no space
	for i, c := range source {
		begins := bytes.IndexByte([]byte("\n,[]{}-:?"), before) >= 0
		ends := i+1 == len(source) || bytes.IndexByte([]byte(" \t\r\n"), source[i+1]) >= 0
		if c == '?' && !(begins && ends) {
			b.WriteString(mark)
		} else {
			b.WriteByte(c)
		}
		if c != ' ' && c != '\t' && c != '\r' {
			before = c
		}
	}
	return b.Bytes()
}

func tooDeep(r *reader, at Pos) {
	r.add(at, "write large values in the code of a step", "lists and mappings are nested more than %d deep", maxDepth)
}

// reader collects findings while it reads a file.
type reader struct {
	findings
	source []byte
	lines  []int // offsets of lines, from line 1; nil until they are used
	steps  int
}

// lineReader reads one line at a time.
type lineReader struct {
	rest []byte
	line int  // the last one that was read
	open bool // its end was not read yet
}

func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	if !l.open {
		l.line++
	}
	n := bytes.IndexByte(l.rest, '\n') + 1
	if n == 0 {
		n = len(l.rest)
	}
	n = copy(p, l.rest[:n])
	l.open = l.rest[n-1] != '\n'
	l.rest = l.rest[n:]
	return n, nil
}

// syntaxError is the form of errors of the YAML parser. Its lines are wrong for errors of the first kind.
var syntaxError = lazyregexp.New(`^yaml: (?:line (\d+): )?(?:did not find expected ('.*|key|node content|<document start>)|(.*))$`)

// syntax reports an error of the YAML parser, which has read the given number of lines.
func (r *reader) syntax(err error, lines int) {
	line, text := 1, "it cannot be read"
	if m := syntaxError().FindStringSubmatch(err.Error()); m != nil {
		if line, text = lines, m[2]+" must be specified"; m[2] == "" {
			n, _ := strconv.Atoi(m[1]) // "" is no number
			line, text = max(n, 1), m[3]
		}
	}
	if strings.HasPrefix(text, "exceeded max depth") {
		tooDeep(r, Pos{line, 1})
		return
	}
	r.add(Pos{line, 1}, "", "this is not YAML: %s", text)
}

func posOf(n *yaml.Node) Pos { return Pos{max(n.Line, 1), max(n.Column, 1)} }

// pair is a member of a mapping.
type pair struct {
	key   Ref
	value *yaml.Node
}

// pairs returns the members of a mapping, or reports that n is none.
func (r *reader) pairs(n *yaml.Node, what string) (list []pair, ok bool) {
	if n.Kind != yaml.MappingNode || n.Anchor != "" {
		r.add(posOf(n), "", "%s is %s; it must be a mapping", what, kindOf(n))
		return nil, false
	}
	first := map[string]Pos{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := posOf(key)
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			r.add(at, "", "a key of %s is %s; it must be a name", what, kindOf(key))
			continue
		}
		if before, twice := first[key.Value]; twice {
			r.add(at, "", "this is not YAML: mapping key %q already defined at [%d:%d]", key.Value, before.Line, before.Column)
			continue
		}
		first[key.Value] = at
		list = append(list, pair{Ref{key.Value, at}, n.Content[i+1]})
	}
	return list, true
}

// kindOf describes a node in a message.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "", n.ShortTag() == "!!merge":
		return "an anchor or alias, which workflows do not use"
	case n.Style&yaml.TaggedStyle != 0:
		return "something else"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!str", "!!timestamp":
		return "text"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		if strings.Trim(n.Value, "0123456789") == "" && n.ShortTag() == "!!float" && n.Value[0] == '0' {
			return "text" // such as 08
		}
		return "a number"
	}
	return "something else"
}

func isTextNode(n *yaml.Node) bool   { return n.Kind == yaml.ScalarNode && kindOf(n) == "text" }
func isNumberNode(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && kindOf(n) == "a number" }

// keys are the parsers of the keys of a mapping.
type keys map[string]func(Ref, *yaml.Node)

// read calls the parsers of the keys of n. It reports unknown keys, and those of required that
// are missing.
func (r *reader) read(n *yaml.Node, what string, k keys, required ...string) {
	list, ok := r.pairs(n, what)
	if !ok {
		return
	}
	given := map[string]bool{}
	for _, p := range list {
		parse := k[p.key.Name]
		if parse == nil {
			r.add(p.key.Pos, r.nearest(p.key.Name, names(k), ""), "%s has no key %.60q", what, p.key.Name)
			continue
		}
		given[p.key.Name] = true
		parse(p.key, p.value)
	}
	for _, name := range required {
		if !given[name] {
			r.add(posOf(n), "", "%s has no %s", what, name)
		}
	}
}

func names[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// text reads a text without expressions.
func (r *reader) text(key Ref, n *yaml.Node) string {
	if !isTextNode(n) {
		r.add(posOf(n), "", "%s is %s; it must be text", key.Name, kindOf(n))
		return ""
	}
	return n.Value
}

// choice reads one of some words.
func (r *reader) choice(key Ref, n *yaml.Node, words ...string) string {
	word := r.text(key, n)
	if word != "" && !slices.Contains(words, word) {
		r.add(posOf(n), r.nearest(word, words, ""), "%s %.60q does not exist", key.Name, word)
	}
	return word
}

// name reads an identifier.
func (r *reader) name(key Ref, n *yaml.Node) Ref {
	ref := Ref{r.text(key, n), posOf(n)}
	if ref.Name != "" && !isName(ref.Name) {
		r.add(ref.Pos, "use 1 to 128 letters, digits and underscores, and begin with a letter", "%s %.60q is not a name", key.Name, ref.Name)
	}
	return ref
}

// list returns the items of a list.
func (r *reader) list(key Ref, n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode || kindOf(n) != "a list" {
		r.add(posOf(n), "", "%s is %s; it must be a list", key.Name, kindOf(n))
		return nil
	}
	return n.Content
}

// refs reads a name or a list of names.
func (r *reader) refs(key Ref, n *yaml.Node) (all []Ref) {
	if isTextNode(n) {
		return []Ref{r.name(key, n)}
	}
	for _, item := range r.list(key, n) {
		all = append(all, r.name(key, item))
	}
	return all
}
