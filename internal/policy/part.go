package policy

import (
	"cmp"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// part is a condition on what stands at one place: a comparison with a constant, a
// hint, or that a member is there. It says what CEL says, by CEL's own values.
type part struct {
	place int
	test  func(ref.Val) ref.Val // true, false, or something else where there is no answer
}

func (p part) holds(f *facts) fit {
	v := f.at(p.place)
	if v != missing {
		v = p.test(v)
	}
	switch v {
	case types.True:
		return matches
	case types.False:
		return conditionOff
	}
	return unsure
}

// parts returns the parts of a condition, and whether they are all of it.
func (p *places) parts(e ast.Expr) (all []part, whole bool) {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		whole = true
		for _, arg := range e.AsCall().Args() {
			some, alone := p.parts(arg)
			all, whole = append(all, some...), whole && alone
		}
		return all, whole
	}
	if one, ok := p.part(e); ok {
		return []part{one}, true
	}
	return nil, false
}

func (p *places) part(e ast.Expr) (part, bool) {
	if a, ok := stands(e); ok {
		return part{p.of(a), itself}, true
	}
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		a, ok := stands(e.AsSelect().Operand())
		if !ok {
			return part{}, false
		}
		return part{p.of(a), has(e.AsSelect().FieldName())}, true
	}
	if e.Kind() != ast.CallKind {
		return part{}, false
	}
	return p.call(e.AsCall())
}

func (p *places) call(c ast.CallExpr) (part, bool) {
	args, name := c.Args(), c.FunctionName()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	if name == operators.LogicalNot {
		a, ok := stands(args[0])
		return part{p.place(a, ok), not}, ok
	}
	if len(args) != 2 {
		return part{}, false
	}
	if args[0].Kind() == ast.LiteralKind && mirrored[name] != "" {
		name, args = mirrored[name], []ast.Expr{args[1], args[0]}
	}
	a, ok := stands(args[0])
	if list, is := literals(args[1]); ok && is && name == operators.In {
		return part{p.of(a), in(list)}, true
	}
	test := tests[name]
	if !ok || test == nil || args[1].Kind() != ast.LiteralKind {
		return part{}, false
	}
	return part{p.of(a), test(args[1].AsLiteral())}, true
}

// place is the number of a place, if it is one.
func (p *places) place(a at, ok bool) int {
	if !ok {
		return 0
	}
	return p.of(a)
}

// stands tells at which place an expression looks, if it does nothing else.
func stands(e ast.Expr) (at, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return at{variable: e.AsIdent()}, variables[e.AsIdent()] != nil
	case ast.SelectKind:
		a, ok := stands(e.AsSelect().Operand())
		a.members = append(a.members, types.String(e.AsSelect().FieldName()))
		return a, ok && !e.AsSelect().IsTestOnly()
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[1].Kind() != ast.LiteralKind {
			return at{}, false
		}
		name, isText := c.Args()[1].AsLiteral().(types.String)
		a, ok := stands(c.Args()[0])
		a.members = append(a.members, name)
		return a, ok && isText
	}
	return at{}, false
}

func literals(e ast.Expr) (all []ref.Val, ok bool) {
	if e.Kind() != ast.ListKind {
		return nil, false
	}
	for _, x := range e.AsList().Elements() {
		if x.Kind() != ast.LiteralKind {
			return nil, false
		}
		all = append(all, x.AsLiteral())
	}
	return all, true
}

// mirrored are operators as they read from right to left.
var mirrored = map[string]string{
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals, operators.Less: operators.Greater,
	operators.LessEquals: operators.GreaterEquals, operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
}

// tests compare with a constant.
var tests = map[string]func(constant ref.Val) func(ref.Val) ref.Val{
	operators.Equals: func(c ref.Val) func(ref.Val) ref.Val {
		return func(v ref.Val) ref.Val { return types.Equal(v, c) }
	},
	operators.NotEquals: func(c ref.Val) func(ref.Val) ref.Val {
		return func(v ref.Val) ref.Val { return types.Bool(types.Equal(v, c) != types.True) }
	},
	operators.Less:          order(true, false, false),
	operators.LessEquals:    order(true, true, false),
	operators.Greater:       order(false, false, true),
	operators.GreaterEquals: order(false, true, true),
	"startsWith":            text(strings.HasPrefix),
	"endsWith":              text(strings.HasSuffix),
	"contains":              text(strings.Contains),
}

// order makes tests that hold for what is less than a constant, equal or greater.
func order(less, equal, greater bool) func(ref.Val) func(ref.Val) ref.Val {
	holds := [3]bool{less, equal, greater}
	return func(c ref.Val) func(ref.Val) ref.Val {
		n, whole := c.(types.Int)
		f, exact := c.(types.Double)
		if whole && n < 1<<53 && n > -1<<53 {
			f, exact = types.Double(n), true
		}
		return func(v ref.Val) ref.Val {
			switch v := v.(type) { // what CEL does, and most conditions need, without an allocation
			case types.Int:
				if whole {
					return types.Bool(holds[1+cmp.Compare(v, n)])
				}
			case types.Double:
				if exact {
					return types.Bool(holds[1+cmp.Compare(v, f)])
				}
			}
			return compare(v, c, holds)
		}
	}
}

func compare(v, c ref.Val, holds [3]bool) ref.Val {
	ordered, ok := v.(traits.Comparer)
	if !ok {
		return missing
	}
	n, ok := ordered.Compare(c).(types.Int)
	if !ok {
		return missing
	}
	return types.Bool(holds[1+n])
}

func text(holds func(s, part string) bool) func(ref.Val) func(ref.Val) ref.Val {
	return func(c ref.Val) func(ref.Val) ref.Val {
		return func(v ref.Val) ref.Val {
			s, ok := v.(types.String)
			part, is := c.(types.String)
			if !ok || !is {
				return missing
			}
			return types.Bool(holds(string(s), string(part)))
		}
	}
}

func in(list []ref.Val) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		for _, c := range list {
			if types.Equal(v, c) == types.True {
				return types.True
			}
		}
		return types.False
	}
}

func has(name string) func(ref.Val) ref.Val {
	var key ref.Val = types.String(name)
	return func(v ref.Val) ref.Val {
		m, ok := v.(traits.Mapper)
		if !ok {
			return missing
		}
		_, there := m.Find(key)
		return types.Bool(there)
	}
}

func itself(v ref.Val) ref.Val { return v }

func not(v ref.Val) ref.Val {
	if b, ok := v.(types.Bool); ok {
		return b.Negate()
	}
	return missing
}
