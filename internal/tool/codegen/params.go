package codegen

import (
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Param is a parameter of the function of a tool.
type Param struct {
	Name     string // of the argument, as the server uses it
	Python   string // in Python
	Required bool
	OmitNone bool // None is the same as an omitted argument
}

// Params returns the parameters of d's function in their order, and whether it has a parameter for
// additional arguments.
func Params(d tool.Definition) (params []Param, more bool) {
	d.Output = nil
	f := newFunction(d, "f")
	for _, p := range f.params {
		params = append(params, Param{p.wire, p.id, p.required, !p.required && !p.absent})
	}
	return params, !f.more.empty()
}

// ArgumentNames returns the names of the arguments that a schema allows, in all its alternatives.
func ArgumentNames(input json.RawMessage) []string {
	var all fields
	r := newReader(parseSchema(input), newNamespace("f"), false)
	r.fields(r.root, &all, certain, 0)
	return all.names()
}
