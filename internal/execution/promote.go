package execution

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// promoteCode makes a function of the variable _source; see promote.py.
const promoteCode = `from sandpiper import promote
try:
    _code, _parameters = promote.function(_source, _name, globals().keys())
    result = {"code": _code, "parameters": _parameters}
except promote.Unsuitable as e:
    result = {"message": str(e)}
`

// Promoted is a skill made of the code of an execution.
type Promoted struct {
	skill.Draft
	Parameters []string // names that the code uses and does not define
}

// Promote makes a skill of the code of an execution: a function with its name that returns what
// the execution returned. Tokens in the code are replaced as CheckSkill does. The skill is not
// saved. d.Code is ignored.
func (r *Runner) Promote(ctx context.Context, h *home.Home, c recent.Code, d skill.Draft) (Promoted, error) {
	p := Promoted{Draft: d}
	if err := skill.CheckName(d.Name); err != nil {
		return p, err
	}
	vars, err := json.Marshal(map[string]string{"_source": c.Code, "_name": d.Name})
	if err != nil {
		return p, fmt.Errorf("marshal the source: %w", err)
	}
	done, err := runInternal(ctx, r, h, promoteCode, vars)
	if err != nil {
		return p, err
	}
	if !done.Success() {
		return p, fault.New(fault.Invalid, "the code could not be made a function: %.300s", done.Error)
	}
	var made struct {
		Code       string
		Parameters []string
		Message    string
	}
	if err := json.Unmarshal(done.Value, &made); err != nil {
		return p, fmt.Errorf("decode the function: %w", err)
	}
	if made.Message != "" {
		return p, fault.New(fault.Invalid, "the code cannot be made a function: %.300s", made.Message).
			WithHint("write it as a function, and save that with `sandpiper skills save`")
	}
	exit := r.cfg.Privacy.Of(h.ID()).For(redact.Owner{Tenant: h.ID(), Vault: h.Vault, Session: c.Session, Execution: c.Execution})
	tokens, _, err := exit.Restorer().Lookup(ctx, made.Code)
	if err != nil {
		return p, err
	}
	p.Code, p.Parameters = made.Code, made.Parameters
	p.Draft, err = r.CheckSkill(ctx, h, "", p.Draft, tokens)
	return p, err
}
