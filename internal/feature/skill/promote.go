package skill

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// promoteCode makes a function of the variable _source; see promote.py.
const promoteCode = `from sandpiper.features.skill import promote
try:
    _code, _parameters = promote.function(_source, _name, globals().keys())
    result = {"code": _code, "parameters": _parameters}
except promote.Unsuitable as e:
    result = {"message": str(e)}
`

// promoted is a skill made of the code of an execution.
type promoted struct {
	skill.Draft
	Parameters []string // names that the code uses and does not define
}

// promote makes a skill of the code of an execution: a function with its name that returns what
// the execution returned. Tokens in the code are replaced as check does. The skill is not
// saved. d.Code is ignored.
func promote(ctx context.Context, c pycode.Checker, h *home.Home, of recent.Code, d skill.Draft) (promoted, error) {
	p := promoted{Draft: d}
	if err := skill.CheckName(d.Name); err != nil {
		return p, err
	}
	var made struct {
		Code       string
		Parameters []string
		Message    string
	}
	vars := map[string]string{"_source": of.Code, "_name": d.Name}
	if err := c.Evaluate(ctx, h, promoteCode, vars, "the code could not be made a function", &made); err != nil {
		return p, err
	}
	if made.Message != "" {
		return p, fault.New(fault.Invalid, "the code cannot be made a function: %.300s", made.Message).
			WithHint("write it as a function, and save that with `sandpiper skills save`")
	}
	gate := c.Privacy.Of(h.ID()).For(redact.Owner{Tenant: h.ID(), Vault: h.Vault, Session: of.Session, Execution: of.Execution})
	tokens, _, err := gate.Restorer().Lookup(ctx, made.Code)
	if err != nil {
		return p, err
	}
	p.Code, p.Parameters = made.Code, made.Parameters
	p.Draft, err = check(ctx, c, h, "", p.Draft, tokens)
	return p, err
}
