package catalog

import "github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"

// Tokens returns how many tokens a client spends on the definition when it lists the tool.
func (t Tool) Tokens() int64 {
	return int64(tokens.Count(t.Definition.Tool + "\n" + t.Description + "\n" + string(t.Input)))
}
