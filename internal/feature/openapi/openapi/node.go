package openapi

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// node is a value in a document and its location.
type node struct {
	v       any // as decoded by encoding/json, numbers as json.Number; nil if absent
	file    *file
	pointer string // JSON pointer
}

// key identifies the node in the document.
func (n node) key() string { return n.file.name + "#" + n.pointer }

// get returns a member of an object, an empty node for other types.
func (n node) get(name string) node {
	return node{n.value(name), n.file, n.pointer + "/" + escape(name)}
}

func (n node) has(name string) bool {
	m, _ := n.v.(map[string]any)
	_, ok := m[name]
	return ok
}

// items returns the items of a list, none for other types.
func (n node) items() []node {
	list, _ := n.v.([]any)
	nodes := make([]node, len(list))
	for i, v := range list {
		nodes[i] = node{v, n.file, n.pointer + "/" + strconv.Itoa(i)}
	}
	return nodes
}

// names returns the sorted keys of an object.
func (n node) names() []string {
	m, _ := n.v.(map[string]any)
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// text returns a string or number as text, "" for other types.
func (n node) text() string {
	switch v := n.v.(type) {
	case string:
		return v
	case fmt.Stringer: // a number, such as an unquoted version
		return v.String()
	}
	return ""
}

// value returns a member without its location.
func (n node) value(name string) any {
	m, _ := n.v.(map[string]any)
	return m[name]
}

func (n node) isTrue(name string) bool { yes, _ := n.value(name).(bool); return yes }

// requireObject returns an error unless the node is an object.
func (n node) requireObject(what string) error {
	if _, ok := n.v.(map[string]any); !ok {
		return n.errorf("expected %s, got %s", what, kindOf(n.v))
	}
	return nil
}

// errorf returns an error located at the node.
func (n node) errorf(format string, args ...any) *fault.Error {
	where := n.file.title
	if line := n.file.line(n.pointer); line > 0 {
		where += " line " + strconv.Itoa(line)
	}
	return fault.New(fault.Invalid, "%s (#%s): %s", sanitize.Line(where, 300), sanitize.Line(n.pointer, 300),
		sanitize.Line(fmt.Sprintf(format, args...), 1000))
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case map[string]any, schema.Object:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	}
	return "a number"
}

func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
}
