package pycode

import (
	"cmp"
	"context"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// CompileCode compiles the variable source as a module, with its tokens replaced by
// their values, and reports errors.
const CompileCode = `from sandpiper import literals
result = literals.checked(source, tokens)
`

// Compiled is code that compiles.
type Compiled struct {
	Source string     // with tokens replaced
	Tools  []UsedTool // that it certainly uses
}

// UsedTool is a tool that code uses, by the names in the code. A wrong report of a worker would
// harm only the code of its own tenant.
type UsedTool struct {
	Server   string `json:"server"`
	Function string `json:"function"`
	ByName   bool   `json:"by_name"` // the names are the server's own
}

// Servers returns the names in the code of the servers of tools.
func Servers(used []UsedTool) (names []string) {
	for _, u := range used {
		names = append(names, u.Server)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Compile rejects code that does not compile, with the line and the compiler's
// message. Tokens in string literals and comments of the returned code are replaced by
// their values, escaped as needed; other tokens remain.
func (c Checker) Compile(ctx context.Context, h *home.Home, code string, tokens map[string]string) (Compiled, error) {
	if err := c.guarded(ctx, code); err != nil {
		return Compiled{}, err
	}
	var found struct {
		Compiled
		Line    int
		Message string // "" if the code compiles
		Token   bool   // the error is about a token
	}
	vars := map[string]any{"source": code, "tokens": tokens}
	if err := c.Evaluate(ctx, h, CompileCode, vars, "code could not be compiled", &found); err != nil {
		return Compiled{}, err
	}
	switch {
	case found.Message == "":
		found.Source = cmp.Or(found.Source, code)
		return found.Compiled, Check(found.Source)
	case found.Token:
		return Compiled{}, fault.New(fault.Invalid, "code line %d: %.300s", found.Line, found.Message).
			WithHint("write the complete token in a string without the prefix r")
	case found.Line > 0:
		return Compiled{}, fault.New(fault.Invalid, "code does not compile: line %d: %.300s", found.Line, found.Message)
	default:
		return Compiled{}, fault.New(fault.Invalid, "code does not compile: %.300s", found.Message)
	}
}
