package background

import (
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// Program names code of a tenant that runs without a client: a skill, or else a workflow.
type Program struct {
	Skill, Workflow string
	Inputs          json.RawMessage // a JSON object; nil means none
}

// Request returns the stored request of an execution that runs p. The quotas of the tenant apply when it
// starts, and a workflow is compiled then.
func (p Program) Request(description string) ([]byte, error) {
	code := ""
	if p.Workflow == "" {
		if skill.CheckName(p.Skill) != nil {
			return nil, fault.New(fault.Invalid, "%.60q cannot be the name of a skill", p.Skill)
		}
		code = "from skills import " + p.Skill + "\nresult = " + p.Skill + "(**inputs)\n"
	}
	inputs := p.Inputs
	if len(inputs) == 0 {
		inputs = json.RawMessage("{}")
	}
	vars, err := json.Marshal(map[string]json.RawMessage{"inputs": inputs})
	if err != nil {
		return nil, err
	}
	return json.Marshal(execution.StoredRequest{
		Uncounted: true,
		Request:   execution.Request{Code: code, Vars: vars, Description: description, Background: true, Workflow: execution.Workflow{Name: p.Workflow}},
	})
}
