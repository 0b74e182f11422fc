package form

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
)

// The tools run this code, so that limits, questions, privacy and the workspace are those of any
// other code.
const (
	inspectForm = `_form = forms.open(form_file)
result = {"kind": _form.kind, "title": _form.title, "pages": _form.pages, "fields": _form.fields, "warnings": _form.warnings, "submit": _form.action}
result = {k: v for k, v in result.items() if v}`
	fillForm = `_form = forms.open(form_file).fill(form_data, ignore_scripts=form_scripts)
result = {"message": _form.save(form_target), "review": _form.review(), "unused": _form.unused}`
)

// tools are the tools for forms.
type tools struct{ runner *execution.Runner }

func (t tools) all() []builtin.Tool {
	file := builtin.Param{Name: "file", Kind: builtin.Text, Required: true, Source: builtin.FileNames}
	return []builtin.Tool{{
		Name: "inspect_form", Profile: builtin.Full,
		Description: "List the fields of a form in /workspace: PDF, HTML or JSON Schema.",
		Params:      []builtin.Param{file},
		Hints:       wire.Hints{ReadOnly: true},
		Start:       t.inspect,
		OwnCode:     true,
	}, {
		Name: "fill_form", Profile: builtin.Full,
		Description: "Fill in a form with data by field name or meaning; asks the person for required values that are missing. The file " +
			"itself is unchanged.",
		Params: []builtin.Param{
			file,
			{Name: "data", Kind: builtin.Object, Required: true},
			{Name: "save_as", Kind: builtin.Text, Required: true},
			{Name: "ignore_scripts", Kind: builtin.Boolean, Default: false},
		},
		Hints:   wire.Hints{Destructive: true, Idempotent: true}, // may overwrite save_as
		Start:   t.fill,
		OwnCode: true,
	}}
}

func (t tools) inspect(ctx context.Context, c builtin.Call) (*execution.Execution, error) {
	var args struct{ File string }
	if err := c.Read(&args); err != nil {
		return nil, err
	}
	return t.run(ctx, c, inspectForm, map[string]any{"form_file": args.File})
}

func (t tools) fill(ctx context.Context, c builtin.Call) (*execution.Execution, error) {
	var args struct {
		File          string
		Data          json.RawMessage
		Target        string `json:"save_as"`
		IgnoreScripts bool   `json:"ignore_scripts"`
	}
	if err := c.Read(&args); err != nil {
		return nil, err
	}
	return t.run(ctx, c, fillForm, map[string]any{
		"form_file": args.File, "form_data": args.Data, "form_target": args.Target, "form_scripts": args.IgnoreScripts,
	})
}

// run runs code with variables, in which tokens are restored like in context_vars.
func (t tools) run(ctx context.Context, c builtin.Call, code string, vars map[string]any) (*execution.Execution, error) {
	encoded, err := json.Marshal(vars)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the arguments cannot be encoded as JSON")
	}
	return t.runner.Start(ctx, c.Home, execution.Request{Code: code, Vars: encoded, Subset: c.Subset, Client: c.Client})
}
