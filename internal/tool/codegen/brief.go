package codegen

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Limits of a Brief.
const (
	maxShortType    = 32 // bytes of a type
	maxShortDefault = 24 // bytes of a default
)

// Brief is the signature of a tool in few tokens. Its types may be wider than those of
// Usage.Signature, and strings in it have single quotes, which JSON does not escape.
type Brief struct {
	Required string // f(a: str, ...): the required parameters, and "..." if there are others
	Complete string // f(a: str, b=10, c: int=None): all parameters
	Result   string // {id, name}: the Outline of the result; "" if it is not known
}

// Abbreviate returns the Brief of d, whose Python name is name.
func Abbreviate(d tool.Definition, name string) Brief {
	return abbreviate(newFunction(d, name), names{left: maxOutlined})
}

// Typed is Abbreviate with the types of the keys of arguments and results, and more of both.
func Typed(d tool.Definition, name string) Brief {
	return abbreviate(newFunction(d, name), names{left: 3 * maxOutlined, typed: true})
}

func abbreviate(f *function, n names) Brief {
	name := f.name
	var required, all []string
	for _, p := range f.params {
		short := p.short(f.input, n)
		all = append(all, short)
		if p.required {
			required = append(required, short)
		}
	}
	if !f.more.empty() && !f.bare && len(all) == 0 {
		all = append(all, "**"+f.moreName())
	}
	if len(required) < len(all) {
		required = append(required, "...")
	}
	return Brief{call(name, required), call(name, all), outlineResult(f.def, n)}
}

func call(name string, args []string) string { return name + "(" + strings.Join(args, ", ") + ")" }

// short returns the parameter with its type, or with its default, which shows the type too.
func (p param) short(r *reader, n names) string {
	t := p.typ
	t.null = false
	short := t.short()
	// a call needs its keys
	if p.schema != nil && (strings.ContainsAny(short, "{") || strings.Contains(short, "dict") || strings.HasPrefix(short, "list")) {
		most := n.left
		if text := outline(r, p.schema, &n, 0); n.left < most {
			short = strings.TrimSuffix(text, "|None")
		}
	}
	switch value := singleQuoted(p.value); {
	case p.required:
		return p.id + ": " + short
	case value == "" || len(value) > maxShortDefault:
		if p.absent && !p.defaultsToNull() {
			return p.id + ": " + short + "=..."
		}
		return p.id + ": " + short + "=None"
	case len(t.literals) > 1:
		return p.id + ": " + short + "=" + value
	default:
		return p.id + "=" + value
	}
}

// short returns t without the types of items and keys, unless they are short.
func (t typ) short() string {
	if t.any || t.empty() {
		return "Any"
	}
	parts := texts(t.literals, alternative.full)
	if literals := strings.Join(parts, "|"); len(literals) > maxShortType {
		parts = texts(bases(t.literals), alternative.full)
	}
	for _, other := range texts(t.others, alternative.short) {
		if len(other) > maxShortType {
			other = outer(other)
		}
		parts = append(parts, other)
	}
	if t.null {
		parts = append(parts, "None")
	}
	return singleQuoted(strings.Join(parts, "|"))
}

// outer returns the type of a container without the types of its contents.
func outer(brief string) string {
	if strings.HasPrefix(brief, "{") {
		return "dict"
	}
	name, _, _ := strings.Cut(brief, "[")
	return name
}

// singleQuoted returns Python source with single instead of double quotes, if nothing in it
// needs escapes.
func singleQuoted(source string) string {
	if strings.ContainsAny(source, `'\`) {
		return source
	}
	return strings.ReplaceAll(source, `"`, "'")
}
