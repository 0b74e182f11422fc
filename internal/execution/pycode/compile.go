package pycode

import (
	"cmp"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// CheckSkill rejects a skill whose code does not compile, or that cannot be saved for another
// reason. It returns the skill with its tools, and with tokens in string literals and comments
// of the code replaced by their values, escaped as needed. It waits until the servers of these
// tools have listed them or have failed to, and ends with ctx.
func (c Checker) CheckSkill(ctx context.Context, h *home.Home, subset string, d skill.Draft, tokens map[string]string) (skill.Draft, error) {
	if err := d.Check(); err != nil {
		return d, err
	}
	checked, err := c.Compile(ctx, h, d.Code, tokens)
	if err != nil {
		return d, err
	}
	d.Code = checked.Source
	if c.Tools != nil {
		v := c.Tools.For(h.ID(), subset)
		v.Await(ctx, skills.Servers(checked.Tools))
		d.Tools = skills.Resolve(v.Now(), checked.Tools)
	}
	return d, d.Check()
}

// CompileCode compiles the variable source as a module, with its tokens replaced by
// their values, and reports errors.
const CompileCode = `from sandpiper import literals
result = literals.checked(source, tokens)
`

// Compiled is code that compiles.
type Compiled struct {
	Source string            // with tokens replaced
	Tools  []skills.UsedTool // that it certainly uses
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
	if err := c.run(ctx, h, CompileCode, map[string]any{"source": code, "tokens": tokens}, "code could not be compiled", &found); err != nil {
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
