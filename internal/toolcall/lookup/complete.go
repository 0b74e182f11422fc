package lookup

import (
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// ServerNames returns the names of all servers, in the order of the catalog.
func (f view) ServerNames() (names []string) {
	for _, s := range f.now().Servers {
		names = append(names, s.Name)
	}
	return names
}

// HasServer reports whether there is a server of that name.
func (f view) HasServer(name string) bool {
	s, ok := f.now().Server(name)
	return ok && s.Name == name
}

// ToolNames returns the names of all tools, as SERVER.TOOL.
func (f view) ToolNames() (names []string) {
	now := f.now()
	for _, s := range now.Servers {
		for _, t := range now.Of(s.Name) {
			names = append(names, t.Ref.String())
		}
	}
	return names
}

// CategoryNames returns the names of all categories, sorted.
func (f view) CategoryNames() []string { return categories(f.now()) }

// Enum returns the values that the schema of a tool allows for an argument; nil if it allows
// any. known is false if there is no such tool; see Define for its name.
func (f view) Enum(name, argument string) (values []string, known bool) {
	tools := f.now().Named(name, "")
	if len(tools) == 0 {
		return nil, false
	}
	return schema.Enum(tools[0].Input, argument), true
}
