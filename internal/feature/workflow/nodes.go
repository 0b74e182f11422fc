package workflow

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// nodeReader reads nodes of YAML, and reports those that are wrong.
type nodeReader struct{ findings }

func posOf(n *yaml.Node) Pos { return Pos{max(n.Line, 1), max(n.Column, 1)} }

// pair is a member of a mapping.
type pair struct {
	key   Ref
	value *yaml.Node
}

// pairs returns the members of a mapping, or reports that n is none.
func (r *nodeReader) pairs(n *yaml.Node, what string) (list []pair, ok bool) {
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

// keys are the parsers of the keys of a mapping.
type keys map[string]func(Ref, *yaml.Node)

// read calls the parsers of the keys of n. It reports unknown keys, and those of required that
// are missing.
func (r *nodeReader) read(n *yaml.Node, what string, k keys, required ...string) {
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

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// text reads a text without expressions.
func (r *nodeReader) text(key Ref, n *yaml.Node) string {
	if kindOf(n) != "text" {
		r.add(posOf(n), "", "%s is %s; it must be text", key.Name, kindOf(n))
		return ""
	}
	return n.Value
}

// choice reads one of some words.
func (r *nodeReader) choice(key Ref, n *yaml.Node, words ...string) string {
	word := r.text(key, n)
	if word != "" && !slices.Contains(words, word) {
		r.add(posOf(n), r.nearest(word, words, ""), "%s %.60q does not exist", key.Name, word)
	}
	return word
}

// name reads an identifier.
func (r *nodeReader) name(key Ref, n *yaml.Node) Ref {
	ref := Ref{r.text(key, n), posOf(n)}
	if ref.Name != "" && !isName(ref.Name) {
		r.add(ref.Pos, "use 1 to 128 letters, digits and underscores, and begin with a letter", "%s %.60q is not a name", key.Name,
			ref.Name)
	}
	return ref
}

// list returns the items of a list.
func (r *nodeReader) list(key Ref, n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode || kindOf(n) != "a list" {
		r.add(posOf(n), "", "%s is %s; it must be a list", key.Name, kindOf(n))
		return nil
	}
	return n.Content
}

// refs reads a name or a list of names.
func (r *nodeReader) refs(key Ref, n *yaml.Node) (all []Ref) {
	if kindOf(n) == "text" {
		return []Ref{r.name(key, n)}
	}
	for _, item := range r.list(key, n) {
		all = append(all, r.name(key, item))
	}
	return all
}

func (r *nodeReader) boolean(key Ref, n *yaml.Node) bool {
	if kindOf(n) != "a boolean" {
		r.add(posOf(n), "", "%s is %s; it must be true or false", key.Name, kindOf(n))
		return false
	}
	return isTrue(n)
}

// version reads a text or a number.
func (r *nodeReader) version(key Ref, n *yaml.Node) string {
	if kindOf(n) == "a number" {
		return n.Value
	}
	return r.text(key, n)
}

func (r *nodeReader) whole(key Ref, n *yaml.Node, least, most int) (v int) {
	if kindOf(n) == "a number" {
		if v, err := strconv.Atoi(n.Value); err == nil && v >= least && v <= most {
			return v
		}
	}
	r.add(posOf(n), "", "%s is %.40q; it must be a whole number from %d to %d", key.Name, n.Value, least, most)
	return least
}

// duration reads a number of seconds, or a text such as 1m30s.
func (r *nodeReader) duration(key Ref, n *yaml.Node) time.Duration {
	switch {
	case kindOf(n) == "a number":
		if seconds, err := strconv.ParseFloat(n.Value, 64); err == nil && seconds > 0 && seconds < math.MaxInt64/2e9 {
			return time.Duration(seconds * float64(time.Second))
		}
	case kindOf(n) == "text":
		if d, err := clock.ParseDuration(n.Value); err == nil && d > 0 {
			return d
		}
	}
	r.add(posOf(n), "write seconds, or a text such as 1m30s", "%s is %.40q; it must be a time of more than 0", key.Name, n.Value)
	return 0
}

// constant returns a value without expressions as JSON has it.
func (r *nodeReader) constant(n *yaml.Node) any {
	switch kindOf(n) {
	case "empty":
		return nil
	case "a boolean":
		return isTrue(n)
	case "a number":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value) // with all digits
		}
		var v any
		if n.Decode(&v) == nil {
			if raw, err := json.Marshal(v); err == nil {
				return json.Number(raw)
			}
		}
	case "text":
		return n.Value
	case "a list":
		list := []any{}
		for _, item := range n.Content {
			list = append(list, r.constant(item))
		}
		return list
	case "a mapping":
		list, _ := r.pairs(n, "a mapping")
		members := map[string]any{}
		for _, p := range list {
			members[p.key.Name] = r.constant(p.value)
		}
		return members
	}
	r.add(posOf(n), "", "the value is %s; write JSON values, and anything else as text", kindOf(n))
	return nil
}

func isTrue(n *yaml.Node) bool { return strings.EqualFold(n.Value, "true") }

// schema returns a constant that is a JSON schema.
func (r *nodeReader) schema(key Ref, v any) json.RawMessage {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = schema.Valid(raw)
	}
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		r.add(key.Pos, "", "%s is not a JSON schema: %s", key.Name, line)
		return nil
	}
	return raw
}
