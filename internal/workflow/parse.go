package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// MaxBytes limits the size of a file.
const MaxBytes = 1 << 20

// maxSteps limits the number of steps in a file.
const maxSteps = 1000

// Parse reads a workflow in YAML or JSON. It reports all errors that it finds; the workflow is
// nil if there are any.
func Parse(file string, data []byte) (*Workflow, []Finding) {
	r := &reader{file: file}
	if len(data) > MaxBytes {
		r.add(Pos{1, 1}, "", "the file has %d bytes; at most %d are allowed", len(data), MaxBytes)
		return nil, r.found
	}
	doc, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.syntax(err)
		return nil, r.found
	}
	var bodies []ast.Node
	for _, d := range doc.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		r.add(Pos{1, 1}, "`sandpiper workflow schema` prints the keys", "the file has no workflow")
		return nil, r.found
	case 1:
	default:
		r.add(posOf(bodies[1]), "", "the file has more than one document; only one is allowed")
		return nil, r.found
	}
	w := r.workflow(bodies[0])
	if len(r.found) > 0 {
		slices.SortStableFunc(r.found, func(a, b Finding) int {
			return cmp.Or(a.Line-b.Line, a.Column-b.Column)
		})
		return nil, r.found
	}
	return w, nil
}

// reader collects findings while it reads a file.
type reader struct {
	file  string
	found []Finding
	steps int
}

func (r *reader) add(at Pos, hint, format string, args ...any) {
	r.found = append(r.found, Finding{File: r.file, Pos: at, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// syntax reports an error of the YAML parser, without the source that it quotes.
func (r *reader) syntax(err error) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		r.add(Pos{1, 1}, "", "the file is not YAML or JSON")
		return
	}
	p := e.GetToken().Position
	r.add(Pos{p.Line, max(p.Column, 1)}, "", "this is not YAML: %s", e.GetMessage())
}

func posOf(n ast.Node) Pos {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return posOf(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return posOf(v.Key)
	}
	p := n.GetToken().Position
	return Pos{p.Line, max(p.Column, 1)}
}

// pair is a member of a mapping.
type pair struct {
	key   Ref
	value ast.Node
}

// pairs returns the members of a mapping, or reports that n is none.
func (r *reader) pairs(n ast.Node, what string) (list []pair, ok bool) {
	var values []*ast.MappingValueNode
	switch v := n.(type) {
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		r.add(posOf(n), "", "%s is %s; it must be a mapping", what, kindOf(n))
		return nil, false
	}
	for _, v := range values {
		key, isText := v.Key.(ast.ScalarNode)
		if !isText {
			r.add(posOf(v.Key), "", "a key of %s is %s; it must be a name", what, kindOf(v.Key))
			continue
		}
		list = append(list, pair{Ref{fmt.Sprint(key.GetValue()), posOf(v.Key)}, v.Value})
	}
	return list, true
}

// kindOf describes a node in a message.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor or alias, which workflows do not use"
	}
	return "something else"
}

// keys are the parsers of the keys of a mapping.
type keys map[string]func(Ref, ast.Node)

// read calls the parsers of the keys of n. It reports unknown keys, and those of required that
// are missing.
func (r *reader) read(n ast.Node, what string, k keys, required ...string) {
	list, ok := r.pairs(n, what)
	if !ok {
		return
	}
	given := map[string]bool{}
	for _, p := range list {
		parse := k[p.key.Name]
		if parse == nil {
			r.add(p.key.Pos, nearest(p.key.Name, names(k)), "%s has no key %.60q", what, p.key.Name)
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

// nearest returns a hint with the names that are similar to name, or with all of them.
func nearest(name string, all []string) string {
	if near := fault.Nearest(name, all, 1); len(near) > 0 {
		return "did you mean " + near[0] + "?"
	}
	if len(all) == 0 || len(all) > 20 {
		return ""
	}
	return "there are " + strings.Join(all, ", ")
}

// text reads a text without expressions.
func (r *reader) text(key Ref, n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode:
		return v.Value.Value
	}
	r.add(posOf(n), "", "%s is %s; it must be text", key.Name, kindOf(n))
	return ""
}

// choice reads one of some words.
func (r *reader) choice(key Ref, n ast.Node, words ...string) string {
	word := r.text(key, n)
	if word != "" && !slices.Contains(words, word) {
		hint := nearest(word, words)
		r.add(posOf(n), hint, "%s %.60q does not exist", key.Name, word)
	}
	return word
}

// name reads an identifier.
func (r *reader) name(key Ref, n ast.Node) Ref {
	ref := Ref{r.text(key, n), posOf(n)}
	if ref.Name != "" && !isName(ref.Name) {
		r.add(ref.Pos, "use letters, digits and underscores, and begin with a letter", "%s %.60q is not a name", key.Name, ref.Name)
	}
	return ref
}

// list returns the items of a list.
func (r *reader) list(key Ref, n ast.Node) []ast.Node {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.add(posOf(n), "", "%s is %s; it must be a list", key.Name, kindOf(n))
		return nil
	}
	return seq.Values
}

// refs reads a name or a list of names.
func (r *reader) refs(key Ref, n ast.Node) (all []Ref) {
	if _, single := n.(*ast.StringNode); single {
		return []Ref{r.name(key, n)}
	}
	for _, item := range r.list(key, n) {
		all = append(all, r.name(key, item))
	}
	return all
}
