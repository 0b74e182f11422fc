// Package form lets code and clients fill in forms: PDF files with fields, HTML pages and JSON Schemas.
//
// The Python of the feature does it in the sandbox, in package documents. The daemon checks only the documents
// that are made of a JSON Schema.
package form

import (
	"embed"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// files are the Python of the feature. The wheel is of pypdf, which reads and writes PDF files: see
// scripts/fetch-pypdf. It is installed as one of its packages, so that code that imports pypdf gets the one that
// the operator has installed, in its own version.
//
//go:embed form/*.py form/*.whl form/documents/*.py
var files embed.FS

// Feature returns the feature: forms for code, and the tools inspect_form and fill_form.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{Name: "form", Python: files, Globals: "forms (PDF, HTML)", Start: start},
		Docs:    "forms.md",
	}
}

func start(c daemon.Core) (daemon.Part, error) {
	return daemon.Part{
		Tools:     tools{c.Runner}.all(),
		HostCalls: hostcall.Source{Methods: func(hostcall.Scope) []hostcall.Method { return methods() }},
	}, nil
}
