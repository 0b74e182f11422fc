package codegen

import (
	"slices"
	"strings"
)

// Bounds on how a type is written; what is beyond gets a wider type.
const (
	longestType    = 2500 // characters of an expression
	longestBrief   = 240  // characters of its brief form
	mostLiterals   = 100
	mostOthers     = 40
	mostBrief      = 24 // literals in a brief form
	longestLiteral = 120
)

// typ is a type: one of its literals, one of its alternatives, or None. The
// zero typ has no values yet. Types are written as they are put together, so
// that one that is used twice is not taken apart twice.
type typ struct {
	any      bool
	null     bool
	literals []alternative
	others   []alternative
}

// alternative is a type as a module says it, and its brief form.
type alternative struct {
	expr, brief string
	base        string // of a literal: the type that it widens to
}

var anything = typ{any: true}

func (t typ) empty() bool { return !t.any && !t.null && len(t.literals)+len(t.others) == 0 }

func single(expr, brief string) typ {
	return typ{others: []alternative{{expr: expr, brief: brief}}}
}

// or is the type of what is one or the other.
func (t typ) or(u typ) typ {
	if t.any || u.any {
		return anything
	}
	all := typ{null: t.null || u.null, literals: join(t.literals, u.literals), others: join(t.others, u.others)}
	if len(all.others) > mostOthers {
		return anything
	}
	return all
}

// join puts b after a, without those that a has. Of more literals than will be
// written one of each type is kept.
func join(a, b []alternative) []alternative {
	a = slices.Clip(a)
	for _, x := range b {
		known := slices.ContainsFunc(a, func(y alternative) bool {
			return x.expr == y.expr || len(a) > mostLiterals && x.base == y.base
		})
		if !known {
			a = append(a, x)
		}
	}
	return a
}

// expr writes t for a module.
func (t typ) expr(n *namespace) string {
	if t.any || t.empty() {
		return n.use("Any")
	}
	if len(t.literals) > mostLiterals {
		return t.widened(n).expr(n)
	}
	var parts []string
	if len(t.literals) > 0 {
		parts = append(parts, n.use("Literal")+"["+list(t.literals, alternative.full)+"]")
	}
	parts = append(parts, texts(t.others, alternative.full)...)
	if s := alternatives(parts, t.null); len(s) <= longestType {
		return s
	}
	if len(t.literals) > 0 {
		return t.widened(n).expr(n)
	}
	return n.use("Any")
}

// brief writes t for a reader.
func (t typ) brief() string {
	if t.any || t.empty() {
		return "Any"
	}
	var parts []string
	if enum := list(t.literals, alternative.short); len(t.literals) > mostBrief || len(enum) > longestBrief {
		parts = texts(bases(t.literals), alternative.full)
	} else if enum != "" {
		parts = append(parts, "Literal["+enum+"]")
	}
	for _, other := range texts(t.others, alternative.short) {
		if !slices.Contains(parts, other) {
			parts = append(parts, other)
		}
	}
	if s := alternatives(parts, t.null); len(s) <= 2*longestBrief {
		return s
	}
	return "Any"
}

// widened says of literals only what type they have.
func (t typ) widened(n *namespace) typ {
	w := typ{null: t.null, others: t.others}
	for _, b := range bases(t.literals) {
		w = w.or(n.plain(b.expr))
	}
	return w
}

func bases(literals []alternative) (all []alternative) {
	for _, l := range literals {
		all = join(all, []alternative{{expr: l.base, brief: l.base}})
	}
	return all
}

func (a alternative) full() string  { return a.expr }
func (a alternative) short() string { return a.brief }

func texts(all []alternative, of func(alternative) string) []string {
	var s []string
	for _, a := range all {
		s = append(s, of(a))
	}
	return s
}

func list(all []alternative, of func(alternative) string) string {
	return strings.Join(texts(all, of), ", ")
}

func alternatives(parts []string, null bool) string {
	if null {
		parts = append(parts, "None")
	}
	return strings.Join(parts, " | ")
}

// namespace is the names of one module: those that its types are made of, and
// the classes that it defines.
type namespace struct {
	function string            // the one name that is given
	used     map[string]bool   // of the names in known
	taken    map[string]bool   // by classes
	next     map[string]int    // the next number for a class's name
	bodies   map[string]string // what classes hold, and their names
	classes  []string          // the source of each, in the order in which they need each other
	keys     int               // of all classes
	notes    []note
}

// note is what a schema says of one key of a class.
type note struct{ where, says string }

// known are the names that types are made of, and where they come from.
var known = map[string]string{
	"Any": "typing", "Literal": "typing", "NotRequired": "typing", "TypedDict": "typing",
	"bool": "builtins", "dict": "builtins", "float": "builtins", "int": "builtins",
	"list": "builtins", "str": "builtins", "tuple": "builtins",
}

func newNamespace(function string) *namespace {
	return &namespace{function: function, used: map[string]bool{}, taken: map[string]bool{}, next: map[string]int{}, bodies: map[string]string{}}
}

// use returns how the module says one of the known names: with an underscore if
// its function has the name, as a tool called "list" does.
func (n *namespace) use(name string) string {
	n.used[name] = true
	if name == n.function {
		return "_" + name
	}
	return name
}

// plain is the type with a known name.
func (n *namespace) plain(name string) typ { return single(n.use(name), name) }

// imports are the lines for the names that were used.
func (n *namespace) imports() string {
	var typing, builtins []string
	for name := range n.used {
		switch as := n.use(name); {
		case known[name] == "builtins" && as != name:
			builtins = append(builtins, name+" as "+as)
		case known[name] == "builtins":
		case as != name:
			typing = append(typing, name+" as "+as)
		default:
			typing = append(typing, name)
		}
	}
	return from("builtins", builtins) + from("typing", typing)
}

func from(module string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "from " + module + " import " + strings.Join(names, ", ") + "\n"
}
