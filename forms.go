package sandpiper

import "context"

// Forms are the forms in the workspace: PDF, HTML and JSON Schema.
type Forms struct{ client *Client }

// Forms returns the forms in the workspace.
func (c *Client) Forms() Forms { return Forms{c} }

// Inspect returns the kind, title, pages, fields, warnings and submit of a form as the Value of a
// result. Errors are as of Client.Execute.
func (f Forms) Inspect(ctx context.Context, file string) (*Result, error) {
	return f.client.execute(ctx, "inspect_form", map[string]any{"file": file}, nil)
}

// Fill fills in a form with data by field name or meaning, and saves it as another file; the Value has
// message, review and unused. The person is asked for required values that are missing: Client.Resume
// passes them on.
func (f Forms) Fill(ctx context.Context, file string, data map[string]any, saveAs string) (*Result, error) {
	return f.client.execute(ctx, "fill_form", map[string]any{"file": file, "data": data, "save_as": saveAs}, nil)
}

// FillWithoutScripts is Fill of a PDF whose scripts compute fields: Fill refuses it, since they do not
// run, and FillWithoutScripts leaves those fields as they are.
func (f Forms) FillWithoutScripts(ctx context.Context, file string, data map[string]any, saveAs string) (*Result, error) {
	return f.client.execute(ctx, "fill_form", map[string]any{"file": file, "data": data, "save_as": saveAs, "ignore_scripts": true}, nil)
}
