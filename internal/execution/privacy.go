package execution

import "context"

// textArgs are the arguments of tokenize and detokenize.
type textArgs struct {
	Text string `json:"text"`
}

// tokenized is a text with its values replaced by tokens, and the value of each token.
type tokenized struct {
	Text   string            `json:"text"`
	Tokens map[string]string `json:"tokens"`
}

func (h *host) tokenize(ctx context.Context, text string) (any, error) {
	text, tokens, err := h.exit.Tokens().Sanitize(ctx, text)
	return tokenized{text, tokens}, err
}

func (h *host) detokenize(ctx context.Context, text string) (any, error) {
	text, err := h.exit.Tokens().Detokenize(ctx, text)
	return textArgs{text}, err
}
