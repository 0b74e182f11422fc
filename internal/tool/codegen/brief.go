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
	Complete string // f(a: str, b=10, c: int=None) -> dict: all parameters, and the result if it is known
}

// Abbreviate returns the Brief of d, whose Python name is name.
func Abbreviate(d tool.Definition, name string) Brief {
	f := newFunction(d, name)
	var required, all []string
	for _, p := range f.params {
		all = append(all, p.short())
		if p.required {
			required = append(required, p.short())
		}
	}
	if !f.more.empty() && len(all) == 0 {
		all = append(all, "**"+f.moreName())
	}
	if len(required) < len(all) {
		required = append(required, "...")
	}
	b := Brief{Required: call(name, required), Complete: call(name, all)}
	if !f.result.any {
		b.Complete += " -> " + f.result.short()
	}
	return b
}

func call(name string, args []string) string { return name + "(" + strings.Join(args, ", ") + ")" }

// short returns the parameter with its type, or with its default, which shows the type too.
func (p param) short() string {
	t := p.typ
	t.null = false
	switch value := singleQuoted(p.value); {
	case p.required:
		return p.id + ": " + t.short()
	case value == "" || len(value) > maxShortDefault:
		return p.id + ": " + t.short() + "=None"
	case len(t.literals) > 1:
		return p.id + ": " + t.short() + "=" + value
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
