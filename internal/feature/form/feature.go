// Package form lets code and clients fill in forms: PDF files with fields, HTML pages and JSON Schemas.
//
// The Python of the feature does it in the sandbox, in package documents. The daemon checks only the documents
// that are made of a JSON Schema.
package form

import (
	"archive/zip"
	"bytes"
	"embed"
	"io/fs"
	"path"
	"sync"
	"testing/fstest"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

//go:embed form/*.py form/documents/*.py
var own embed.FS

// pypdf is the wheel of the library that reads and writes PDF files. See scripts/fetch-pypdf.
//
//go:embed pypdf-7.1.1-py3-none-any.whl
var pypdf []byte

// Feature returns the feature: forms for code, and the tools inspect_form and fill_form.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{Name: "form", Python: files{}, Globals: "forms (PDF, HTML)", Start: start},
		Docs:    "forms.md",
	}
}

func start(c daemon.Core) (daemon.Part, error) {
	return daemon.Part{
		Tools:     tools{c.Runner}.all(),
		HostCalls: hostcall.Source{Methods: func(hostcall.Scope) []hostcall.Method { return methods() }},
	}, nil
}

// files are the Python of the feature, with pypdf as one of its packages: code that imports pypdf gets the one
// that the operator has installed, in its own version.
type files struct{}

func (files) Open(name string) (fs.File, error) {
	all, err := unpacked()
	if err != nil {
		return nil, err
	}
	return all.Open(name)
}

// unpacked is done once, and only by programs that install Python.
var unpacked = sync.OnceValues(func() (fstest.MapFS, error) {
	all := fstest.MapFS{}
	if err := copyTo(all, "", own, ".", nil); err != nil {
		return nil, err
	}
	wheel, err := zip.NewReader(bytes.NewReader(pypdf), int64(len(pypdf)))
	if err != nil {
		return nil, err
	}
	return all, copyTo(all, "form", wheel, "pypdf", func(data []byte) []byte {
		return bytes.ReplaceAll(data, []byte("from pypdf"), []byte("from sandpiper.features.form.pypdf"))
	})
})

// copyTo copies the Python below root, changed by change.
func copyTo(to fstest.MapFS, dir string, from fs.FS, root string, change func([]byte) []byte) error {
	return fs.WalkDir(from, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".py" {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if change != nil {
			data = change(data)
		}
		to[path.Join(dir, name)] = &fstest.MapFile{Data: data, Mode: 0o444}
		return err
	})
}
