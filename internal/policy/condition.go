package policy

import (
	"cmp"
	"context"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// condition is a compiled CEL expression over the variables of a call. nil is
// always true.
type condition struct {
	program  cel.Program
	partial  cel.Program // the same expression, for variables that are unknown
	loops    bool        // its cost is not bounded by its length and that of the arguments
	usesTool bool        // it reads a variable tool.…
	never    bool        // it is false for every call
}

// Limits of conditions: of their text in bytes, and of the cost of one that loops, in
// the units of CEL: a comparison or a step is about one.
const (
	maxConditionBytes = 8 << 10
	maxCost           = 100_000
	interruptInterval = 100 // steps between two checks of the context
)

// environment is created when the first condition is compiled: most policies have none.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	opts := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.EnableErrorOnBadPresenceTest(true),
		cel.ParserExpressionSizeLimit(maxConditionBytes)}
	for name, t := range variables {
		opts = append(opts, cel.Variable(name, t))
	}
	return cel.NewEnv(opts...)
})

func compileCondition(text string) (*condition, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment: %w", err)
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	if t := checked.OutputType(); t != cel.BoolType && t != cel.DynType {
		return nil, fault.New(fault.Invalid, "has a condition (when) that is %s; it must be true or false", t)
	}
	c := &condition{}
	var wrong error
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		c.loops = c.loops || e.Kind() == ast.ComprehensionKind || joins(e)
		wrong = cmp.Or(wrong, checkPattern(e))
		c.usesTool = c.usesTool || e.Kind() == ast.IdentKind && strings.HasPrefix(e.AsIdent(), "tool.")
	}))
	if wrong != nil {
		return nil, wrong
	}
	opts := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if c.loops { // tracking the cost triples the time of an evaluation
		opts = append(opts, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptInterval))
	}
	if c.program, err = env.Program(checked, opts...); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "has a condition (when) that cannot be evaluated: %s", err)
	}
	if c.partial, err = env.Program(checked, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(maxCost)); err != nil {
		return nil, fmt.Errorf("compile a condition for partial evaluation: %w", err)
	}
	v, err := c.evalPartial(nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "has a condition (when) that never has an answer: %s", err)
	}
	c.never = v == types.False
	return c, nil
}

// joins reports whether an expression joins texts or lists.
func joins(e ast.Expr) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Add
}

// maxPattern limits the instructions of a regular expression: the time for a text is proportional
// to them, and is not interrupted.
const maxPattern = 1000

// checkPattern returns an error for the pattern of a call of matches that is not in the condition, or
// too large.
func checkPattern(e ast.Expr) error {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches {
		return nil
	}
	args := e.AsCall().Args()
	last := args[len(args)-1]
	if last.Kind() != ast.LiteralKind {
		return fault.New(fault.Invalid, "has a condition (when) with a pattern of matches that is no literal; write the pattern in the "+
			"condition")
	}
	text, _ := last.AsLiteral().Value().(string)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil // is reported by CEL
	}
	if prog, err := syntax.Compile(parsed.Simplify()); err == nil && len(prog.Inst) > maxPattern {
		return fault.New(fault.Invalid, "has a condition (when) with the pattern %.60q of matches, which is too large; use a shorter "+
			"one, with smaller repetitions", text)
	}
	return nil
}

// compileError reports up to three errors in an expression, with their locations.
func compileError(issues *cel.Issues) error {
	var all []string
	for _, e := range issues.Errors() {
		at := fmt.Sprintf("column %d", e.Location.Column()+1)
		if e.Location.Line() > 1 {
			at = fmt.Sprintf("line %d, %s", e.Location.Line(), at)
		}
		message, _, _ := strings.Cut(e.Message, ", expecting {") // a list of all tokens
		message, _, _ = strings.Cut(message, " expecting {")
		all = append(all, at+": "+message)
		if len(all) == 3 {
			break
		}
	}
	return fault.New(fault.Invalid, "has a wrong condition (when): %s", strings.Join(all, "; ")).
		WithHint("conditions are CEL over tool.server, tool.name, tool.read_only, tool.destructive, tool.idempotent, tool.open_world, " +
			"tool.trusted, tenant, session, execution and args; see docs/policy.md")
}

// evalPartial evaluates the condition with the given variables; all others are
// unknown. The value is unknown if it depends on them.
func (c *condition) evalPartial(given map[string]any) (any, error) {
	var unknown []*cel.AttributePatternType
	for name := range variables {
		if _, ok := given[name]; !ok {
			unknown = append(unknown, cel.AttributePattern(name))
		}
	}
	vars, err := cel.PartialVars(given, unknown...)
	if err != nil {
		return nil, err
	}
	v, _, err := c.partial.Eval(vars)
	return v, err
}

// excludes reports whether the condition is false for every call of a server.
func (c *condition) excludes(server string) bool {
	if c == nil {
		return false
	}
	v, err := c.evalPartial(map[string]any{"tool.server": server})
	return err == nil && v == types.False
}

// eval evaluates the condition for a call. The error is why it has no answer.
func (c *condition) eval(ctx context.Context, e *evaluation) (fit, error) {
	if c == nil {
		return matches, nil
	}
	v, err := c.value(ctx, e)
	switch {
	case err == nil && v == types.True:
		return matches, nil
	case err == nil && v == types.False:
		return conditionFalse, nil
	}
	return undecided, err
}

func (c *condition) value(ctx context.Context, e *evaluation) (v any, err error) {
	if err := e.bind(); err != nil {
		return nil, err
	}
	if c.loops {
		v, _, err = c.program.ContextEval(ctx, e)
	} else {
		v, _, err = c.program.Eval(e.frame)
	}
	return v, err
}
