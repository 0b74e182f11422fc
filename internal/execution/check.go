package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tenants"
)

// compileCode compiles what is in the variable source, as a module, and says
// what is wrong with it. It runs where all code runs: a compiler that is fed
// hostile source may need much time and memory.
const compileCode = `result = None
try:
    compile(source, "<skill>", "exec", dont_inherit=True)
except SyntaxError as e:
    result = {"line": e.lineno or 0, "message": e.msg}
except (ValueError, RecursionError, MemoryError, OverflowError) as e:
    result = {"line": 0, "message": str(e) or type(e).__name__}
`

// checkTimeout is how long compiling may take.
const checkTimeout = 10 * time.Second

// CheckPython refuses code that does not compile, with the line and the
// compiler's words. Its ctx ends it.
func (r *Runner) CheckPython(ctx context.Context, home *tenants.Home, code string) error {
	if err := checkCode(code); err != nil {
		return err
	}
	vars, err := json.Marshal(map[string]string{"source": code})
	if err != nil {
		return fmt.Errorf("marshal the source: %w", err)
	}
	req := Request{
		Code: compileCode, Vars: vars,
		Timeout: min(checkTimeout, r.cfg.Limits.MaxTimeout), MemoryMB: r.cfg.Limits.MemoryMB,
	}
	own := newRun(newID())
	own.unlisted = true
	x, err := r.begin(ctx, home, own, req)
	if err != nil {
		return err
	}
	for {
		switch e, err := x.Next(ctx); {
		case err != nil:
			return err
		case e.Done != nil:
			return verdict(*e.Done)
		}
	}
}

// verdict reads what compileCode found.
func verdict(r Result) error {
	if !r.Success() {
		return fault.New(fault.Invalid, "code could not be compiled: %s", r.Error)
	}
	var found *struct {
		Line    int
		Message string
	}
	if err := json.Unmarshal(r.Value, &found); err != nil {
		return fmt.Errorf("read the compiler's verdict: %w", err)
	}
	switch {
	case found == nil:
		return nil
	case found.Line > 0:
		return fault.New(fault.Invalid, "code does not compile: line %d: %.300s", found.Line, found.Message)
	default:
		return fault.New(fault.Invalid, "code does not compile: %.300s", found.Message)
	}
}
