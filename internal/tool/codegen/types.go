package codegen

import (
	"slices"
	"strings"
)

// Limits of a written type. A type beyond them is replaced by a wider one.
const (
	maxTypeLen       = 2500 // characters of an expression
	maxBriefLen      = 240  // characters of its brief form
	maxLiterals      = 100
	maxAlternatives  = 40
	maxBriefLiterals = 24 // literals in a brief form
	maxLiteralLen    = 120
)

// typ is a union of literals, other types and None. The zero typ has no values.
// Its parts are stored as source, so that a type that is used twice is written once.
type typ struct {
	any      bool
	null     bool
	literals []alternative
	others   []alternative
}

// alternative is one type of a union: its expression and its brief form.
type alternative struct {
	expr, brief string
	base        string // the type of a literal
}

var anything = typ{any: true}

func (t typ) empty() bool { return !t.any && !t.null && len(t.literals)+len(t.others) == 0 }

func single(expr, brief string) typ {
	return typ{others: []alternative{{expr: expr, brief: brief}}}
}

// or returns the union of t and u.
func (t typ) or(u typ) typ {
	if t.any || u.any {
		return anything
	}
	all := typ{null: t.null || u.null, literals: join(t.literals, u.literals), others: join(t.others, u.others)}
	if len(all.others) > maxAlternatives {
		return anything
	}
	return all
}

// join appends the elements of b that a does not have. Once there are too many
// literals to write, it adds only literals of new types.
func join(a, b []alternative) []alternative {
	a = slices.Clip(a)
	for _, x := range b {
		known := slices.ContainsFunc(a, func(y alternative) bool {
			return x.expr == y.expr || len(a) > maxLiterals && x.base == y.base
		})
		if !known {
			a = append(a, x)
		}
	}
	return a
}

// expr returns t as Python source for a module.
func (t typ) expr(n *namespace) string {
	if t.any || t.empty() {
		return n.use("Any")
	}
	if len(t.literals) > maxLiterals {
		return t.widened(n).expr(n)
	}
	var parts []string
	if len(t.literals) > 0 {
		parts = append(parts, n.use("Literal")+"["+list(t.literals, alternative.full)+"]")
	}
	parts = append(parts, texts(t.others, alternative.full)...)
	if s := alternatives(parts, t.null); len(s) <= maxTypeLen {
		return s
	}
	if len(t.literals) > 0 {
		return t.widened(n).expr(n)
	}
	return n.use("Any")
}

// brief returns the brief form of t.
func (t typ) brief() string {
	if t.any || t.empty() {
		return "Any"
	}
	var parts []string
	if enum := list(t.literals, alternative.short); len(t.literals) > maxBriefLiterals || len(enum) > maxBriefLen {
		parts = texts(bases(t.literals), alternative.full)
	} else if enum != "" {
		parts = append(parts, "Literal["+enum+"]")
	}
	for _, other := range texts(t.others, alternative.short) {
		if !slices.Contains(parts, other) {
			parts = append(parts, other)
		}
	}
	if s := alternatives(parts, t.null); len(s) <= 2*maxBriefLen {
		return s
	}
	return "Any"
}

// widened replaces the literals of t by their types.
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

// namespace holds the names of one module: the known names that its types use, and
// the classes that it defines.
type namespace struct {
	function string            // name of the module's function
	used     map[string]bool   // of the keys of known
	taken    map[string]bool   // names of classes
	next     map[string]int    // last number used for a class name
	bodies   map[string]string // class names by class body
	classes  []string          // source of each, dependencies first
	keys     int               // number of keys in all classes
	notes    []note
}

// note is the documentation of one key of a class.
type note struct{ key, text string }

// known maps the names that types use to the modules that define them.
var known = map[string]string{
	"Any": "typing", "Literal": "typing", "NotRequired": "typing", "TypedDict": "typing",
	"bool": "builtins", "dict": "builtins", "float": "builtins", "int": "builtins",
	"list": "builtins", "str": "builtins", "tuple": "builtins",
}

func newNamespace(function string) *namespace {
	return &namespace{function: function, used: map[string]bool{}, taken: map[string]bool{}, next: map[string]int{},
		bodies: map[string]string{}}
}

// use marks a known name as used and returns its name in the module. It has a
// leading underscore if the function has the same name, such as a tool "list".
func (n *namespace) use(name string) string {
	n.used[name] = true
	if name == n.function {
		return "_" + name
	}
	return name
}

// plain returns the type with a known name.
func (n *namespace) plain(name string) typ { return single(n.use(name), name) }

// imports returns the import statements for the names that were used.
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
