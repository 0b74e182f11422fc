package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// Origins of a workflow.
const (
	FromFile = "file"  // in the operator's directory
	Saved    = "saved" // by the tenant
)

// extensions of workflow files, in order of precedence.
var extensions = []string{".yaml", ".yml", ".json"}

// sources finds the texts of workflows: files of the operator, and those that a tenant saved.
type sources struct{ dir string } // of the files; "" means none

// Names returns the names of the workflows of a tenant, sorted.
func (s sources) Names(ctx context.Context, h *home.Home) ([]string, error) {
	var all []string
	entries, err := os.ReadDir(s.dir)
	if s.dir != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Unavailable, err, "the operator's directory of workflows cannot be read")
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); slices.Contains(extensions, ext) && isName(strings.TrimSuffix(e.Name(), ext)) {
			all = append(all, strings.TrimSuffix(e.Name(), ext))
		}
	}
	saved, err := saved.Open(h).List(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range saved {
		all = append(all, w.Name)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// version returns a text that changes with the operator's files.
func (s sources) version() string {
	if s.dir == "" {
		return ""
	}
	entries, _ := os.ReadDir(s.dir) // none: the error is that of Names
	var v strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintf(&v, "%s %d %d\n", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return v.String()
}

// source is the text of a workflow.
type source struct {
	file   string // for messages, which tenants see: without the operator's directory
	data   []byte
	origin string
}

// source returns the text of the workflow with that name. One in the directory has precedence.
func (s sources) source(ctx context.Context, h *home.Home, name string) (source, error) {
	if !isName(name) {
		return source{}, fault.New(fault.Invalid, "%.60q is not the name of a workflow", name).
			WithHint("a name has 1 to %d letters, digits and underscores, and begins with a letter", maxName)
	}
	if s.dir != "" {
		for _, ext := range extensions {
			data, err := readFile(filepath.Join(s.dir, name+ext))
			if err == nil {
				return source{name + ext, data, FromFile}, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return source{}, fault.Wrap(fault.Unavailable, err, "the operator's workflow %s cannot be read", name+ext)
			}
		}
	}
	data, err := saved.Open(h).Find(ctx, name)
	if fault.KindOf(err) == fault.NotFound {
		all, listing := s.Names(ctx, h)
		if listing != nil {
			return source{}, listing
		}
		return source{}, fault.New(fault.NotFound, "there is no workflow %.60q", name).
			WithHint("%s", nearest(name, all, "`sandpiper workflow check FILE` and `sandpiper workflow save FILE` add one"))
	}
	return source{name, data, Saved}, err
}

// readFile reads a regular file of at most MaxBytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxBytes {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, MaxBytes)
	}
	return os.ReadFile(path)
}

// Source returns the text of the workflow with that name.
func (s sources) Source(ctx context.Context, h *home.Home, name string) ([]byte, error) {
	found, err := s.source(ctx, h, name)
	return found.data, err
}

// CheckInputs reports that there is no workflow of that name, or that it does not take the inputs.
func (s sources) CheckInputs(ctx context.Context, h *home.Home, name string, inputs json.RawMessage) error {
	found, err := s.source(ctx, h, name)
	if err != nil {
		return err
	}
	w, findings := Parse(found.file, found.data)
	if len(findings) > 0 {
		return invalid(findings)
	}
	_, err = w.Fill(inputs)
	return err
}
