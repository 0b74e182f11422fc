package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
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

func (s *Server) formTools() []builtin.Tool {
	if !s.cfg.Runner.Offers.Forms {
		return nil
	}
	file := builtin.Param{Name: "file", Kind: builtin.Text, Required: true, Source: fileNames}
	return []builtin.Tool{{
		Name: "inspect_form", Profile: builtin.Full,
		Description: "List the fields of a form in /workspace: PDF, HTML or JSON Schema.",
		Params:      []builtin.Param{file},
		Hints:       wire.Hints{ReadOnly: true},
		Run:         s.inspectForm,
	}, {
		Name: "fill_form", Profile: builtin.Full,
		Description: "Fill in a form with data by field name or meaning; asks the person for required values that are missing. The file itself is unchanged.",
		Params: []builtin.Param{
			file, {Name: "data", Kind: builtin.Object, Required: true}, {Name: "save_as", Kind: builtin.Text, Required: true},
			{Name: "ignore_scripts", Kind: builtin.Boolean, Default: false},
		},
		Hints: wire.Hints{Destructive: true, Idempotent: true}, // may overwrite save_as
		Run:   s.fillForm,
	}}
}

func (s *Server) inspectForm(ctx context.Context, c builtin.Call) (redact.Message, error) {
	var args struct{ File string }
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	return s.runForm(ctx, c, inspectForm, map[string]any{"form_file": args.File})
}

func (s *Server) fillForm(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if c.State != "" {
		return s.answered(ctx, c)
	}
	var args struct {
		File          string
		Data          json.RawMessage
		Target        string `json:"save_as"`
		IgnoreScripts bool   `json:"ignore_scripts"`
	}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	return s.runForm(ctx, c, fillForm, map[string]any{"form_file": args.File, "form_data": args.Data, "form_target": args.Target, "form_scripts": args.IgnoreScripts})
}

// runForm runs code with variables, in which tokens are restored like in context_vars.
func (s *Server) runForm(ctx context.Context, c builtin.Call, code string, vars map[string]any) (redact.Message, error) {
	encoded, err := json.Marshal(vars)
	if err != nil {
		return redact.Message{}, fault.Wrap(fault.Invalid, err, "the arguments cannot be encoded as JSON")
	}
	x, err := s.cfg.Runner.Start(ctx, c.Home, execution.Request{Code: code, Vars: encoded, Subset: c.Subset, Client: c.Client})
	if err != nil {
		return redact.Message{}, err
	}
	done, suspended, err := s.followResult(ctx, c, x)
	if done == nil {
		return suspended, err
	}
	done.Traceback = "" // of this code, which the caller does not know
	return message(*done, c.Commands), nil
}
