package openapi

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// node is a value in a document and where it stands.
type node struct {
	v       any // as encoding/json has it, numbers as json.Number; nil if there is nothing
	file    *file
	pointer string // JSON pointer
}

// key names the node among all of a document.
func (n node) key() string { return n.file.name + "#" + n.pointer }

// get is a member of an object; of anything else there are none.
func (n node) get(name string) node {
	return node{n.value(name), n.file, n.pointer + "/" + escape(name)}
}

func (n node) has(name string) bool {
	m, _ := n.v.(map[string]any)
	_, ok := m[name]
	return ok
}

// items are those of a list; anything else has none.
func (n node) items() []node {
	list, _ := n.v.([]any)
	nodes := make([]node, len(list))
	for i, v := range list {
		nodes[i] = node{v, n.file, n.pointer + "/" + strconv.Itoa(i)}
	}
	return nodes
}

// names are the keys of an object, sorted.
func (n node) names() []string {
	m, _ := n.v.(map[string]any)
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// text is a text; of anything else but a number it is "".
func (n node) text() string {
	switch v := n.v.(type) {
	case string:
		return v
	case fmt.Stringer: // a number, such as a version that has no quotes
		return v.String()
	}
	return ""
}

// value is a member's, where it does not matter where that stands.
func (n node) value(name string) any {
	m, _ := n.v.(map[string]any)
	return m[name]
}

func (n node) isTrue(name string) bool { yes, _ := n.value(name).(bool); return yes }

// object refuses what is no object.
func (n node) requireObject(what string) error {
	if _, ok := n.v.(map[string]any); !ok {
		return n.errorf("expected %s, got %s", what, kindOf(n.v))
	}
	return nil
}

// wrong says what is wrong with the document at the node.
func (n node) errorf(format string, args ...any) *fault.Error {
	where := n.file.title
	if line := n.file.line(n.pointer); line > 0 {
		where += " line " + strconv.Itoa(line)
	}
	return fault.New(fault.Invalid, "%s (#%s): %s", where, n.pointer, fmt.Sprintf(format, args...))
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
