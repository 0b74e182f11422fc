package workflow

import (
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// skill is a skill that a workflow calls.
type skill struct {
	as       string // its name in the code
	known    bool   // what follows is set
	declared map[string]json.RawMessage
	required []string
	any      bool // it takes arguments of any name
	types    *schema.Schema
}

// read reads the parameters of the skill's function.
func (k *skill) read(f pysource.Function, found bool) {
	var input struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	raw := f.Input()
	if !found || json.Unmarshal(raw, &input) != nil {
		return
	}
	k.known, k.declared, k.required = true, input.Properties, input.Required
	k.any = strings.Contains(f.Params, "**")
	k.types = schema.Compile(raw)
}

// check returns the errors in the arguments of a step that calls the skill.
func (k *skill) check(s *Step) (found []Finding) {
	if !k.known {
		return nil
	}
	given, constant := map[string]Pos{}, map[string]any{}
	for _, f := range s.Arguments {
		given[f.Name] = f.Pos
		if _, ok := k.declared[f.Name]; !ok && !k.any {
			found = append(found, Finding{Pos: f.Pos, Message: "skill " + s.Target.Name + " has no argument " + f.Name, Hint: nearestOrNone(f.Name, names(k.declared), "it takes none")})
		}
		if v := f.Value; v.Template == nil && v.List == nil && v.Map == nil {
			constant[f.Name] = v.Plain
		}
	}
	for _, name := range k.required {
		if _, ok := given[name]; !ok {
			found = append(found, Finding{Pos: s.Target.Pos, Message: "skill " + s.Target.Name + ": argument " + name + ": is missing"})
		}
	}
	for _, p := range k.types.Check(constant) {
		if at, ok := given[p.Argument]; ok {
			found = append(found, Finding{Pos: at, Message: "skill " + s.Target.Name + ": " + p.String()})
		}
	}
	return found
}
