package policy

import (
	"encoding/json"
	"math"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// variables are the names that a condition may use, with their types.
var variables = map[string]*cel.Type{
	"tool.server": cel.StringType, "tool.name": cel.StringType, "tool.read_only": cel.BoolType, "tool.destructive": cel.BoolType,
	"tool.idempotent": cel.BoolType, "tool.open_world": cel.BoolType, "tool.trusted": cel.BoolType,
	"tenant": cel.StringType, "session": cel.StringType, "execution": cel.StringType,
	"args": cel.MapType(cel.StringType, cel.DynType),
}

// evaluation is the evaluation of a policy for one call, by one goroutine. It provides
// the variables of all conditions. They are CEL values in one array, since converting
// and looking up Go values takes a third of the time of a typical condition.
type evaluation struct {
	call     *Call
	fullName string                      // of the tool: "server.tool"
	frame    *interpreter.ExecutionFrame // for conditions without loops; nil until the first is evaluated
	vars     struct{ server, name, readOnly, destructive, idempotent, openWorld, trusted, tenant, session, execution, args any }
	argsErr  error // why the arguments could not be decoded
}

func newEvaluation(c *Call) *evaluation { return &evaluation{call: c, fullName: c.Ref.String()} }

// bind sets the variables except args, which is decoded when a condition reads it.
func (e *evaluation) bind() (err error) {
	if e.frame != nil {
		return nil
	}
	c, v := e.call, &e.vars
	v.server, v.name, v.trusted = types.String(c.Server), types.String(c.Tool), types.Bool(c.Trusted)
	v.readOnly, v.destructive = types.Bool(c.Hints.Reads()), types.Bool(isTrue(c.Hints.Destructive))
	v.idempotent, v.openWorld = types.Bool(isTrue(c.Hints.Idempotent)), types.Bool(isTrue(c.Hints.OpenWorld))
	v.tenant, v.session, v.execution = types.String(c.Tenant.String()), types.String(c.Session), types.String(c.Execution)
	e.frame, err = interpreter.NewExecutionFrame(e)
	return err
}

// close returns the frame to the pool of CEL.
func (e *evaluation) close() {
	if e.frame != nil {
		e.frame.Close()
	}
}

// ResolveName and Parent implement cel.Activation.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case "tool.server":
		return e.vars.server, true
	case "tool.name":
		return e.vars.name, true
	case "tool.read_only":
		return e.vars.readOnly, true
	case "tool.destructive":
		return e.vars.destructive, true
	case "tool.idempotent":
		return e.vars.idempotent, true
	case "tool.open_world":
		return e.vars.openWorld, true
	case "tool.trusted":
		return e.vars.trusted, true
	case "tenant":
		return e.vars.tenant, true
	case "session":
		return e.vars.session, true
	case "execution":
		return e.vars.execution, true
	case "args":
		if e.vars.args == nil {
			e.vars.args = e.decodeArgs()
		}
		return e.vars.args, true
	}
	return nil, false
}

func (e *evaluation) Parent() cel.Activation { return nil }

func (e *evaluation) decodeArgs() map[string]any {
	args, err := schema.Decode(e.call.Args)
	if err != nil {
		e.argsErr = fault.New(fault.Invalid, "the arguments of %s: %s", e.call.Ref, err)
		return map[string]any{}
	}
	convertNumbers(args)
	return args
}

// convertNumbers replaces each json.Number by an int64 or uint64 if one holds it,
// else by the nearest float64.
func convertNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case map[string]any:
		for k, x := range v {
			v[k] = convertNumbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = convertNumbers(x)
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
	n, err := strconv.ParseFloat(s, 64) // infinite if it is out of range
	if err != nil && !math.IsInf(n, 0) {
		return s
	}
	return n
}
