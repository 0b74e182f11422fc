package bert

// Tokens returns the tokens of a text.
func (m *Model) Tokens(text string) []int32 { return m.tokens.encode(text, MaxTokens) }
