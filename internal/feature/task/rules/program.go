package rules

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// literal returns text as a Python string.
func literal(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(b)
}

// program writes Python.
type program struct {
	imports []string
	lines   []string
	helpers map[string]bool
	results int // variables r1, r2, …
}

// helpers are the functions that programs of several steps use.
var helpers = []struct{ name, code string }{
	{"only", `def only(value):
    """Return what a value of one member or element contains."""
    while isinstance(value, (dict, list)) and len(value) == 1:
        value = next(iter(value.values() if isinstance(value, dict) else value))
    return value
`},
	{"pick", `def pick(value, *words):
    """Return the member that most words name, wherever it is in value; None if there is none."""
    best, count, todo = None, 0, [value]
    while todo:
        item = todo.pop(0)
        if isinstance(item, dict):
            for key, member in item.items():
                same = sum(w in str(key).lower() for w in words)
                if same > count and member is not None:
                    best, count = member, same
            todo += item.values()
        elif isinstance(item, list):
            todo += item
    return best
`},
	{"number", `def number(value):
    """Return the first number in value."""
    todo = [value]
    while todo:
        item = todo.pop(0)
        if isinstance(item, (int, float)) and not isinstance(item, bool):
            return item
        if isinstance(item, str) and re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", item):
            return float(item)
        todo += item.values() if isinstance(item, dict) else item if isinstance(item, list) else []
    raise ValueError(f"there is no number in {value!r}")
`},
	{"column", `def column(value, name):
    """Return the numbers in a column of a table: CSV, or rows."""
    value = only(value)
    if isinstance(value, str):
        value = list(csv.DictReader(io.StringIO(value), skipinitialspace=True))
    if isinstance(value, dict):
        value = next(v for v in value.values() if isinstance(v, list))
    keys = {str(k).strip().lower(): k for k in value[0]}
    key = keys[name.lower()]
    return [float(row[key]) for row in value if str(row[key]).strip()]
`},
	{"text", `def text(value):
    """Return value as text."""
    value = only(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
`},
}

// needs are the helpers that helpers use.
var needs = map[string]string{"text": "only", "column": "only"}

func (p *program) use(helper string) string {
	if p.helpers == nil {
		p.helpers = map[string]bool{}
	}
	p.helpers[helper] = true
	if n := needs[helper]; n != "" {
		p.use(n)
	}
	return helper
}

// call adds a call of a tool and returns the variable with its result.
func (p *program) call(t task.Described, args []argument) string {
	p.results++
	name := fmt.Sprintf("r%d", p.results)
	p.lines = append(p.lines, name+" = "+p.callCode(t, args))
	return name
}

// callCode returns a call of a tool, and imports it.
func (p *program) callCode(t task.Described, args []argument) string {
	function := p.importTool(t)
	parts := make([]string, len(args))
	for i, a := range args {
		if a.name == "" {
			parts[i] = "**" + a.code
		} else if identifier().MatchString(a.name) && !keywords[a.name] {
			parts[i] = a.name + "=" + a.code
		} else {
			parts[i] = "**{" + literal(a.name) + ": " + a.code + "}"
		}
	}
	return function + "(" + strings.Join(parts, ", ") + ")"
}

// importTool imports the function of a tool and returns its name; of two with the same name the
// second gets another one.
func (p *program) importTool(t task.Described) string {
	function := t.Import[strings.LastIndexByte(t.Import, ' ')+1:]
	for n := 1; ; n++ {
		name, line := function, t.Import
		if n > 1 {
			name = fmt.Sprintf("%s_%d", function, n)
			line += " as " + name
		}
		other := false
		for _, i := range p.imports {
			if i == line {
				return name
			}
			other = other || strings.HasSuffix(i, " "+name)
		}
		if !other {
			p.imports = append(p.imports, line)
			return name
		}
	}
}

var (
	identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	keywords   = wording.Set(`and as assert async await break class continue def del elif else except finally for from global if import in is
		lambda nonlocal not or pass raise return try while with yield False None True`)
)

// code returns the program, whose result is an expression.
func (p *program) code(result string) string {
	var b strings.Builder
	for _, i := range p.imports {
		b.WriteString(i + "\n")
	}
	if p.helpers["column"] {
		b.WriteString("import csv\nimport io\n")
	}
	for _, h := range helpers {
		if p.helpers[h.name] {
			b.WriteString("\n" + h.code + "\n")
		}
	}
	for _, l := range p.lines {
		b.WriteString(l + "\n")
	}
	b.WriteString("result = " + result + "\n")
	return b.String()
}
