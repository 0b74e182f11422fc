package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// condition is a CEL expression over the facts of a call. nil always holds.
type condition struct {
	program cel.Program
	loops   bool // it may cost more than it is long
	// Of "a && b" those of a and b that are as simple as most are; they are asked
	// without CEL, since that costs less. Those of the tool are the same for all its
	// calls.
	ofTool, ofCall []part
	whole          bool // there is nothing else
	never          bool // it is false whatever the call is
}

// variables are all that a condition may name.
var variables = map[string]*cel.Type{
	"tool.server": cel.StringType, "tool.name": cel.StringType, "tool.read_only": cel.BoolType, "tool.destructive": cel.BoolType,
	"tool.idempotent": cel.BoolType, "tool.open_world": cel.BoolType, "tool.trusted": cel.BoolType,
	"tenant": cel.StringType, "session": cel.StringType, "execution": cel.StringType,
	"args": cel.MapType(cel.StringType, cel.DynType),
}

// Limits of conditions: of their text, and of what one that loops may cost, in the
// units of CEL: a comparison or a step is about one.
const (
	longestCondition = 8 << 10
	mostCost         = 100_000
	stepsUnasked     = 100 // between two looks at the context
)

// environment is made once it is needed: most have no conditions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	opts := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.EnableErrorOnBadPresenceTest(true), cel.ParserExpressionSizeLimit(longestCondition)}
	for name, t := range variables {
		opts = append(opts, cel.Variable(name, t))
	}
	return cel.NewEnv(opts...)
})

// condition reads an expression.
func (p *places) condition(text string) (*condition, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("make the environment of conditions: %w", err)
	}
	read, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, refused(issues)
	}
	if t := read.OutputType(); t != cel.BoolType && t != cel.DynType {
		return nil, fault.New(fault.Invalid, "has a condition (when) that is %s; it must be true or false", t)
	}
	c := &condition{loops: loops(read)}
	opts := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if c.loops { // to track cost triples what a condition costs
		opts = append(opts, cel.CostLimit(mostCost), cel.InterruptCheckFrequency(stepsUnasked))
	}
	if c.program, err = env.Program(read, opts...); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "has a condition (when) that cannot be evaluated: %s", err)
	}
	if c.never, err = never(env, read); err != nil {
		return nil, err
	}
	parts, whole := p.parts(read.NativeRep().Expr())
	c.whole = whole
	for _, one := range parts {
		if p.all[one.place].ofTool() {
			c.ofTool = append(c.ofTool, one)
		} else {
			c.ofCall = append(c.ofCall, one)
		}
	}
	return c, nil
}

// refused says what is wrong with an expression, and where.
func refused(issues *cel.Issues) error {
	var all []string
	for _, e := range issues.Errors() {
		at := fmt.Sprintf("column %d", e.Location.Column()+1)
		if e.Location.Line() > 1 {
			at = fmt.Sprintf("line %d, %s", e.Location.Line(), at)
		}
		message, _, _ := strings.Cut(e.Message, ", expecting {") // all tokens that there are
		message, _, _ = strings.Cut(message, " expecting {")
		all = append(all, at+": "+message)
		if len(all) == 3 {
			break
		}
	}
	return fault.New(fault.Invalid, "has a wrong condition (when): %s", strings.Join(all, "; ")).
		WithHint("conditions are CEL over tool.server, tool.name, tool.read_only, tool.destructive, tool.idempotent, tool.open_world, tool.trusted, tenant, session, execution and args; see docs/policy.md")
}

func loops(a *cel.Ast) bool {
	found := false
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.ComprehensionKind
	}))
	return found
}

// never tells whether an expression is false whatever a call is. One that has no
// answer whatever the call is, is refused.
func never(env *cel.Env, read *cel.Ast) (bool, error) {
	program, err := env.Program(read, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(mostCost))
	if err != nil {
		return false, fmt.Errorf("look at a condition: %w", err)
	}
	var unknown []*cel.AttributePatternType
	for name := range variables {
		unknown = append(unknown, cel.AttributePattern(name))
	}
	vars, err := cel.PartialVars(cel.NoVars(), unknown...)
	if err != nil {
		return false, fmt.Errorf("look at a condition: %w", err)
	}
	v, _, err := program.Eval(vars)
	if err != nil {
		return false, fault.New(fault.Invalid, "has a condition (when) that never has an answer: %s", err)
	}
	return v == types.False, nil
}

// possible tells whether the condition can hold for a tool.
func (c *condition) possible(f *facts) bool {
	return c == nil || !c.never && !slices.ContainsFunc(c.ofTool, func(p part) bool { return p.holds(f) != matches })
}

// holds asks the condition about a call of a tool for which it is possible.
func (c *condition) holds(ctx context.Context, f *facts) fit {
	if c == nil {
		return matches
	}
	how := matches
	for _, p := range c.ofCall {
		switch p.holds(f) {
		case conditionOff:
			return conditionOff
		case unsure:
			how = unsure
		}
	}
	if c.whole {
		return how
	}
	return c.eval(ctx, f)
}

func (c *condition) eval(ctx context.Context, f *facts) fit {
	eval := func() (any, error) { v, _, err := c.program.Eval(f); return v, err }
	if c.loops {
		eval = func() (any, error) { v, _, err := c.program.ContextEval(ctx, f); return v, err }
	}
	switch v, err := eval(); {
	case err == nil && v == types.True:
		return matches
	case err == nil && v == types.False:
		return conditionOff
	}
	return unsure
}
