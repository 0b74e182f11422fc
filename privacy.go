package sandpiper

import "context"

// Privacy replaces personal data in texts by tokens.
type Privacy struct{ client *Client }

// Privacy returns the tokens of the tenant.
func (c *Client) Privacy() Privacy { return Privacy{c} }

// Sanitize replaces personal data in a text by tokens, and returns the types of the data, such as
// EMAIL.
func (p Privacy) Sanitize(ctx context.Context, text string) (clean string, types []string, err error) {
	var answer struct {
		Text  string   `json:"sanitized_text"`
		Types []string `json:"pii_types"`
	}
	err = p.client.do(ctx, "sanitize_pii", map[string]any{"text": text}, &answer)
	return answer.Text, answer.Types, err
}

// Restore replaces the tokens in a text by their values, if the setting pii.restore allows it. The
// program must not pass the values to a model.
func (p Privacy) Restore(ctx context.Context, text string) (string, error) {
	return p.restore(ctx, "text", text)
}

// RestoreExecution is Restore of the output and result of an execution, as they were last returned.
func (p Privacy) RestoreExecution(ctx context.Context, id string) (string, error) {
	return p.restore(ctx, "execution_id", id)
}

// RestoreFile returns a text file of the workspace with the values that Files.Read replaces by tokens,
// under the same conditions as Restore.
func (p Privacy) RestoreFile(ctx context.Context, name string) (string, error) {
	return p.restore(ctx, "filename", name)
}

func (p Privacy) restore(ctx context.Context, kind, of string) (string, error) {
	var answer struct {
		Text string `json:"restored_text"`
	}
	err := p.client.do(ctx, "restore_pii", map[string]any{kind: of}, &answer)
	return answer.Text, err
}
