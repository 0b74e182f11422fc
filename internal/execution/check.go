package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// compileCode compiles what is in the variable source, as a module, with what the
// tokens in it stand for, and says what is wrong with it. It runs where all code
// runs: a compiler that is fed hostile source may need much time and memory.
const compileCode = `from sandpiper import literals
result = literals.verdict(source, tokens)
`

// checkTimeout is how long compiling may take.
const checkTimeout = 10 * time.Second

// CheckPython refuses code that does not compile, with the line and the
// compiler's words. It returns the code with what tokens stand for in string
// literals and comments, written as each needs it; a token elsewhere is left.
// Its ctx ends it.
func (r *Runner) CheckPython(ctx context.Context, home *home.Home, code string, tokens map[string]string) (string, error) {
	if err := checkCode(code); err != nil {
		return "", err
	}
	if err := unguarded(r.cfg.Guard, code); err != nil {
		return "", err
	}
	vars, err := json.Marshal(map[string]any{"source": code, "tokens": tokens})
	if err != nil {
		return "", fmt.Errorf("marshal the source: %w", err)
	}
	req := Request{
		Code: compileCode, Vars: vars,
		Timeout: min(checkTimeout, r.cfg.Limits.MaxTimeout), MemoryMB: r.cfg.Limits.MemoryMB,
	}
	own := newRun(newID())
	own.unlisted = true
	x, err := r.begin(ctx, home, own, req)
	if err != nil {
		return "", err
	}
	for {
		switch e, err := x.Next(ctx); {
		case err != nil:
			return "", err
		case e.Done != nil:
			return verdict(code, *e.Done)
		}
	}
}

// verdict reads what compileCode found and returns the code to keep.
func verdict(code string, r Result) (string, error) {
	if !r.Success() {
		return "", fault.New(fault.Invalid, "code could not be compiled: %.300s", r.Error)
	}
	var found *struct {
		Source  string // code with tokens replaced; "" if something is wrong
		Line    int
		Message string
		Token   bool // it is about a token
	}
	if err := json.Unmarshal(r.Value, &found); err != nil {
		return "", fmt.Errorf("read the compiler's verdict: %w", err)
	}
	switch {
	case found == nil:
		return code, nil
	case found.Source != "":
		return found.Source, checkCode(found.Source)
	case found.Token:
		return "", fault.New(fault.Invalid, "code line %d: %.300s", found.Line, found.Message).
			WithHint("write the token whole, in a string without the prefix r")
	case found.Line > 0:
		return "", fault.New(fault.Invalid, "code does not compile: line %d: %.300s", found.Line, found.Message)
	default:
		return "", fault.New(fault.Invalid, "code does not compile: %.300s", found.Message)
	}
}
