package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// MaxExports limits the exported workflows that a tenant saves: a model reads all of them.
const MaxExports = 50

// Export is a workflow that clients see as a tool.
type Export struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Inputs      json.RawMessage `json:"inputs"` // JSON schema of an object
}

// Exports returns the exported workflows of a tenant, by name. It leaves out those that cannot be
// parsed, or that have the name of a tool of Sandpiper; List gives the reason.
func (s *Service) Exports(ctx context.Context, h *home.Home) (all []Export, err error) {
	names, err := s.Names(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, err := s.source(ctx, h, name)
		if err != nil {
			return nil, err
		}
		if e, ok := s.export(name, found); ok {
			all = append(all, e)
		}
	}
	return all, nil
}

// FindExport returns the exported workflow with that name, and reports whether there is one.
func (s *Service) FindExport(ctx context.Context, h *home.Home, name string) (e Export, ok bool, err error) {
	found, err := s.source(ctx, h, name)
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Invalid:
		if err != nil {
			return e, false, nil
		}
	}
	if err != nil {
		return e, false, err
	}
	e, ok = s.export(name, found)
	return e, ok, nil
}

func (s *Service) export(name string, of source) (e Export, ok bool) {
	if !strings.Contains(string(of.data), "export") { // cheaper than parsing it
		return e, false
	}
	w := s.summaries.of(of).workflow
	if w == nil || !w.Export || len(s.checkExport(w)) > 0 || s.isTool(name) || len(name) > maxExportName { // a file may have another name
		return e, false
	}
	e = Export{Name: name, Description: w.Description, Inputs: w.objectSchema()}
	if e.Description == "" {
		e.Description = "Run the workflow " + name + "."
	}
	return e, true
}

// objectSchema returns the schema of the inputs, with the type that a tool's schema must have.
func (w *Workflow) objectSchema() json.RawMessage {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(w.Inputs, &members) // no inputs
	members["type"] = json.RawMessage(`"object"`)
	raw, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return raw
}

func (s *Service) isTool(name string) bool { return s.cfg.IsTool != nil && s.cfg.IsTool(name) }

// checkExport reports that an exported workflow has the name of a tool.
func (s *Service) checkExport(w *Workflow) []Finding {
	if !w.Export || !s.isTool(w.Name) {
		return nil
	}
	return []Finding{{File: w.File, Pos: w.namePos, Message: fmt.Sprintf("Sandpiper has a tool %s", w.Name), Hint: "give the exported workflow another name"}}
}

// checkExports reports that no other workflow can be exported.
func (s *Service) checkExports(ctx context.Context, h *home.Home, name string) error {
	all, err := s.Exports(ctx, h)
	if err != nil {
		return err
	}
	n := 0
	for _, e := range all {
		if e.Name != name {
			n++
		}
	}
	if n >= MaxExports {
		return fault.New(fault.Exhausted, "%d other workflows are exported; at most %d are allowed", n, MaxExports).
			WithHint("save it without `export`, or delete another one")
	}
	return nil
}

// FilesVersion returns a text that changes with the operator's files.
func (s *Service) FilesVersion() string {
	if s.cfg.Dir == "" {
		return ""
	}
	entries, _ := os.ReadDir(s.cfg.Dir) // none: the error is that of List
	var v strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			fmt.Fprintf(&v, "%s %d %d\n", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return v.String()
}
