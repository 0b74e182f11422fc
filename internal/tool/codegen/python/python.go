// Package python contains the Python source that does not depend on tool definitions. It is part of
// generated files, and a worker has it compiled beforehand; README states what it needs.
package python

import _ "embed"

var (
	//go:embed servers.py
	Servers string // servers/__init__.py, after its docstring
	//go:embed resources.py
	Resources string
	//go:embed prompts.py
	Prompts string
)
