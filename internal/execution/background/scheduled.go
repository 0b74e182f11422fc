package background

import (
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// Scheduled returns the stored request of an execution that runs a schedule. The quotas of the
// tenant apply when it starts, and a workflow is compiled then.
func Scheduled(s schedule.Spec) ([]byte, error) {
	code := ""
	if s.Workflow == "" {
		var err error
		if code, err = scheduledCode(s); err != nil {
			return nil, err
		}
	}
	inputs := s.Inputs
	if len(inputs) == 0 {
		inputs = json.RawMessage("{}")
	}
	vars, err := json.Marshal(map[string]json.RawMessage{"inputs": inputs})
	if err != nil {
		return nil, err
	}
	return json.Marshal(execution.StoredRequest{
		Schedule: s.Name,
		Request:  execution.Request{Code: code, Vars: vars, Description: "schedule " + s.Name, Background: true, Workflow: execution.Workflow{Name: s.Workflow}},
	})
}

// scheduledCode returns the code that runs the skill of a schedule.
func scheduledCode(s schedule.Spec) (string, error) {
	if skill.CheckName(s.Skill) != nil {
		return "", fault.New(fault.Invalid, "schedule %q runs skill %.60q, which cannot be the name of a skill", s.Name, s.Skill)
	}
	return "from skills import " + s.Skill + "\nresult = " + s.Skill + "(**inputs)\n", nil
}
