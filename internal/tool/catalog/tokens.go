package catalog

import "github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"

// Tokens returns how many tokens a client spends that lists all tools of the connected
// servers directly: names, descriptions and schemas. Counting 7,000 tools takes a
// tenth of a second, once for each snapshot.
func (s *Snapshot) Tokens() int64 { return s.tokens() }

func (s *Snapshot) countTokens() int64 {
	sum := int64(0)
	for _, t := range s.Tools {
		if t.Connected {
			sum += t.Tokens()
		}
	}
	return sum
}

// Tokens returns how many tokens a client spends on the definition when it lists the tool.
func (t Tool) Tokens() int64 {
	return int64(tokens.Count(t.Definition.Tool + "\n" + t.Description + "\n" + string(t.Input)))
}
