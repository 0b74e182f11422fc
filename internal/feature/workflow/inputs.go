package workflow

import (
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// inputSchema is the part of the schema of inputs that defaults need.
type inputSchema struct {
	Properties map[string]struct {
		Default json.RawMessage `json:"default"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// readInputs reads a JSON schema that was encoded here.
func readInputs(raw json.RawMessage) (s inputSchema) {
	_ = json.Unmarshal(raw, &s) // none, if it is empty
	return s
}

// Fill checks the inputs of a run, a JSON object, and returns them with their defaults. No
// inputs are an empty object.
func (w *Workflow) Fill(inputs json.RawMessage) (json.RawMessage, error) {
	if len(inputs) == 0 || string(inputs) == "null" {
		inputs = json.RawMessage("{}")
	}
	args, err := schema.Decode(inputs)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the inputs of workflow %s are not a JSON object", w.Name).
			WithHint("pass an object such as {\"NAME\": VALUE}")
	}
	declared := readInputs(w.Inputs).Properties
	for _, name := range names(args) {
		if _, known := declared[name]; !known {
			return nil, fault.New(fault.Invalid, "workflow %s has no input %.60q", w.Name, name).
				WithHint("%s", nearest(name, w.InputNames, "it declares none"))
		}
	}
	for name, p := range declared {
		if _, given := args[name]; !given && p.Default != nil {
			args[name] = decoded(p.Default)
		}
	}
	var problems []string
	for _, p := range schema.Compile(w.Inputs).Check(args) {
		problems = append(problems, strings.Replace(p.String(), "argument ", "input ", 1))
	}
	if len(problems) > 0 {
		return nil, fault.New(fault.Invalid, "the inputs of workflow %s are wrong: %s", w.Name, strings.Join(problems, "; "))
	}
	return json.Marshal(args)
}
