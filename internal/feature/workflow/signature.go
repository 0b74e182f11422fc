package workflow

import (
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// signature is what a skill or a workflow takes.
type signature struct {
	inputSchema
	any   bool // arguments of any name
	types *schema.Schema
}

// newSignature reads a JSON schema of an object.
func newSignature(raw json.RawMessage) signature {
	return signature{inputSchema: readInputs(raw), types: schema.Compile(raw)}
}

// checkArguments reports the errors in the arguments of a step that calls a skill or a workflow.
func (c *callWriter) checkArguments(s *Step, of signature, noun string) {
	callee := s.Type + " " + s.Target.Name
	given, constant := map[string]Pos{}, map[string]any{}
	for _, f := range s.Arguments {
		given[f.Name] = f.Pos
		if _, ok := of.Properties[f.Name]; !ok && !of.any {
			c.add(f.Pos, c.nearest(f.Name, names(of.Properties), "it takes none"), "%s has no %s %.60q", callee, noun, f.Name)
		} else if v := f.Value; v.Template == nil && v.List == nil && v.Map == nil {
			constant[f.Name] = v.Plain
		}
	}
	for _, name := range of.Required {
		if _, ok := given[name]; !ok && of.Properties[name].Default == nil && !c.stopped() {
			c.add(s.Target.Pos, "", "%s: %s %s: is missing", callee, noun, name)
		}
	}
	for _, p := range of.types.Check(constant) {
		if at, ok := given[p.Argument]; ok {
			c.add(at, "", "%s: %s", callee, strings.Replace(p.String(), "argument", noun, 1))
		}
	}
}
