package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// compileCode compiles the variable source as a module, with its tokens replaced by
// their values, and reports errors. It runs in a sandbox like all code, since hostile
// source can make the compiler use much time and memory.
const compileCode = `from sandpiper import literals
result = literals.verdict(source, tokens)
`

// checkTimeout limits one compilation.
const checkTimeout = 10 * time.Second

// CheckPython rejects code that does not compile, with the line and the compiler's
// message. It returns the code with tokens in string literals and comments replaced by
// their values, escaped as needed; other tokens remain. It ends with ctx.
func (r *Runner) CheckPython(ctx context.Context, home *home.Home, code string, tokens map[string]string) (string, error) {
	if err := checkCode(code); err != nil {
		return "", err
	}
	if err := checkGuard(r.cfg.Guard, code); err != nil {
		return "", err
	}
	vars, err := json.Marshal(map[string]any{"source": code, "tokens": tokens})
	if err != nil {
		return "", fmt.Errorf("marshal the source: %w", err)
	}
	req := Request{
		Code: compileCode, Vars: vars,
		Timeout: min(checkTimeout, r.Limits(home.ID()).MaxTimeout), MemoryMB: r.Limits(home.ID()).MemoryMB,
	}
	own := newRun(newID())
	own.internal = true
	x, err := r.begin(ctx, home, own, req)
	if err != nil {
		return "", err
	}
	for {
		switch e, err := x.Next(ctx); {
		case err != nil:
			return "", err
		case e.Done != nil:
			return compileResult(code, *e.Done)
		}
	}
}

// compileResult interprets the result of compileCode and returns the code to store.
func compileResult(code string, r reply.Result) (string, error) {
	if !r.Success() {
		return "", fault.New(fault.Invalid, "code could not be compiled: %.300s", r.Error)
	}
	var found *struct {
		Source  string // code with tokens replaced; "" on error
		Line    int
		Message string
		Token   bool // the error is about a token
	}
	if err := json.Unmarshal(r.Value, &found); err != nil {
		return "", fmt.Errorf("decode the compiler's result: %w", err)
	}
	switch {
	case found == nil:
		return code, nil
	case found.Source != "":
		return found.Source, checkCode(found.Source)
	case found.Token:
		return "", fault.New(fault.Invalid, "code line %d: %.300s", found.Line, found.Message).
			WithHint("write the complete token in a string without the prefix r")
	case found.Line > 0:
		return "", fault.New(fault.Invalid, "code does not compile: line %d: %.300s", found.Line, found.Message)
	default:
		return "", fault.New(fault.Invalid, "code does not compile: %.300s", found.Message)
	}
}
