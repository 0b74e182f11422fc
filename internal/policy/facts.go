package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// facts are what conditions know of one call. They are for one goroutine.
type facts struct {
	call   *Call
	places []at
	args   ref.Val // decoded, once something looks at them
	wrong  error   // they are no arguments
	found  []ref.Val
}

// ResolveName and Parent make facts what CEL takes variables from.
func (f *facts) ResolveName(name string) (any, bool) {
	v := f.variable(name)
	return v, v != nil
}

func (f *facts) Parent() cel.Activation { return nil }

func (f *facts) variable(name string) ref.Val {
	c := f.call
	switch name {
	case "tool.server":
		return types.String(c.Server)
	case "tool.name":
		return types.String(c.Tool)
	case "tool.read_only":
		return types.Bool(c.Hints.Reads())
	case "tool.destructive":
		return types.Bool(is(c.Hints.Destructive))
	case "tool.idempotent":
		return types.Bool(is(c.Hints.Idempotent))
	case "tool.open_world":
		return types.Bool(is(c.Hints.OpenWorld))
	case "tool.trusted":
		return types.Bool(c.Trusted)
	case "tenant":
		return types.String(c.Tenant.String())
	case "session":
		return types.String(c.Session)
	case "execution":
		return types.String(c.Execution)
	case "args":
		return f.arguments()
	}
	return nil
}

func (f *facts) arguments() ref.Val {
	if f.args == nil {
		args, err := schema.Decode(f.call.Args)
		if err != nil {
			f.wrong = fault.New(fault.Invalid, "the arguments of %s: %s", f.call.Ref, err)
			args = map[string]any{}
		}
		f.args = types.DefaultTypeAdapter.NativeToValue(numbers(args))
	}
	return f.args
}

// numbers makes of decoded JSON what CEL compares: a number is an integer as far
// as 64 bits hold it, else the nearest float.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case map[string]any:
		for k, x := range v {
			v[k] = numbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = numbers(x)
		}
	}
	return v
}

func number(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n
	}
	n, err := strconv.ParseFloat(s, 64) // infinite where it is too large
	if err != nil && !math.IsInf(n, 0) {
		return s
	}
	return n
}

// at is a place where a fact stands: a variable, or a member of args.
type at struct {
	variable string
	members  []ref.Val // texts
}

// ofTool tells whether what stands there is the same for all calls of a tool.
func (a at) ofTool() bool { return strings.HasPrefix(a.variable, "tool.") }

// places are all at which the parts of conditions look.
type places struct {
	all    []at
	number map[string]int
}

func (p *places) of(a at) int {
	key := fmt.Sprintf("%s%q", a.variable, a.members)
	i, ok := p.number[key]
	if !ok {
		if p.number == nil {
			p.number = map[string]int{}
		}
		i = len(p.all)
		p.number[key], p.all = i, append(p.all, a)
	}
	return i
}

// at returns what stands at a place; an error where nothing does.
func (f *facts) at(place int) ref.Val {
	if f.found == nil {
		f.found = make([]ref.Val, len(f.places))
	}
	if f.found[place] == nil {
		f.found[place] = f.look(f.places[place])
	}
	return f.found[place]
}

var missing = types.NewErr("nothing is there")

func (f *facts) look(a at) ref.Val {
	v := f.variable(a.variable)
	for _, key := range a.members {
		m, ok := v.(traits.Mapper)
		if !ok {
			return missing
		}
		if v, ok = m.Find(key); !ok {
			return missing
		}
	}
	return v
}
