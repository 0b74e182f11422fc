package pycode

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/preflight"
)

// examineCode examines the variable source and parts; see python/examine.py. The names in offered are
// those that code has in addition to this one.
const examineCode = `from sandpiper import examine
result = examine.examined(source, parts, scopes, globals() | dict.fromkeys(offered))
`

// Draft is code that is examined before it runs, with the parts that it was made of.
type Draft struct {
	Code   string
	Parts  []Part
	Scopes []Scope
	// Subset and Tools are those of a Request.
	Subset string
	Tools  []string
}

// Part is an expression, or statements of a function.
type Part struct {
	Source string   `json:"source"`
	Code   bool     `json:"code"`  // statements
	Known  []string `json:"known"` // names that statements can use beside the globals
	Scope  int      `json:"scope"` // index in Scopes
	Use    string   `json:"use"`   // "list" of what a loop is over, "variable" of the name of a variable; "" means any
	// Always has the problems of a condition that is always false, and of one that is always true; nil
	// means that it is none.
	Always []Problem `json:"always"`
}

// Scope is what the expressions in a list of steps can refer to.
type Scope struct {
	Outer  int               `json:"outer"`  // index of the scope around it; -1 for that of a workflow
	Steps  []string          `json:"steps"`  // names
	Loop   string            `json:"loop"`   // its variable; "" means none
	Inputs []string          `json:"inputs"` // of a workflow; nil means any
	Hidden map[string]string `json:"hidden"` // of a workflow: the steps inside others, with those
}

// Problem is a message with the next step.
type Problem struct {
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Examined are the errors in a draft.
type Examined struct {
	Parts []PartProblem       `json:"parts"`
	Keyed []KeyedPart         `json:"keyed"`
	Error *CodeProblem        `json:"error"` // of the code as a whole
	Uses  preflight.Uses      `json:"uses"`
	Tools []preflight.Finding `json:"-"` // errors in the uses of tools
}

// KeyedPart is an expression that has to be written in another way: an attribute of a value is a key, also
// if its mappings have a method of that name.
type KeyedPart struct {
	Part   int    `json:"part"`
	Source string `json:"source"`
}

// PartProblem is an error in a part. Lines and columns count from 1.
type PartProblem struct {
	Part   int `json:"part"`
	Line   int `json:"line"`
	Column int `json:"column"`
	Problem
	Syntax bool `json:"syntax"` // the part is not Python
}

// CodeProblem is an error in a line of code.
type CodeProblem struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// Examine checks code without running it: its syntax, the names in its parts, and whether the tools
// exist and accept the arguments. The code is parsed in a sandbox.
func (c Checker) Examine(ctx context.Context, h *home.Home, d Draft) (e Examined, err error) {
	if err := c.guarded(ctx, d.Code); err != nil {
		return e, err
	}
	parts, scopes := append([]Part{}, d.Parts...), append([]Scope{}, d.Scopes...)
	vars := map[string]any{"source": d.Code, "parts": parts, "scopes": scopes, "offered": c.offered(h)}
	if err := c.Evaluate(ctx, h, examineCode, vars, "the code could not be examined", &e); err != nil {
		return e, err
	}
	e.Tools = c.examineTools(ctx, h, d, e.Uses)
	return e, nil
}

// offered returns the functions that the worker offers to code of a tenant, and not to code of
// Sandpiper: see _offer in python/runtime.py.
func (c Checker) offered(h *home.Home) []string {
	names := []string{}
	if c.Tools != nil && c.Network(h.ID()) {
		names = append(names, "fetch")
	}
	if c.Privacy.Of(h.ID()).Mode() != redact.Off {
		names = append(names, "tokenize_pii", "detokenize_pii")
	}
	return names
}

// examineTools returns the errors in the uses of tools. It waits for the servers to list them.
func (c Checker) examineTools(ctx context.Context, h *home.Home, d Draft, uses preflight.Uses) []preflight.Finding {
	if c.Tools == nil {
		return nil
	}
	v := c.Tools.For(h.ID(), d.Subset)
	if d.Tools != nil {
		v.Only = catalog.NewAllowExactly(d.Tools)
	}
	uses = v.Checked(uses)
	why := v.Await(ctx, uses.Servers())
	return preflight.Find(v.Now(), why, v.Calls.Schema, uses)
}
