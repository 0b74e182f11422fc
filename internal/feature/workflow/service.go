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

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// Config of a Service.
type Config struct {
	Runner *execution.Runner // required
	Dir    string            // of the operator's workflow files, for all tenants; "" means none
	// IsTool reports whether Sandpiper has a tool of that name, which no exported workflow can
	// have; nil means none.
	IsTool func(name string) bool
}

// Service finds, checks, saves and starts the workflows of tenants.
type Service struct {
	cfg       Config
	summaries summaries
}

// New returns a Service. It does no I/O.
func New(cfg Config) (*Service, error) {
	if cfg.Runner == nil {
		return nil, errors.New("workflow: Config needs a Runner")
	}
	return &Service{cfg: cfg}, nil
}

// Origins of a workflow.
const (
	FromFile = "file"  // in the operator's directory
	Saved    = "saved" // by the tenant
)

// Listed describes a workflow that can be run.
type Listed struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Version     string          `json:"version,omitempty"`
	Origin      string          `json:"origin"`
	Inputs      json.RawMessage `json:"inputs,omitempty"` // JSON schema
	Steps       int             `json:"steps,omitempty"`
	Exported    bool            `json:"exported,omitempty"`
	Problem     string          `json:"problem,omitempty"` // the first error in it
}

// extensions of workflow files, in order of precedence.
var extensions = []string{".yaml", ".yml", ".json"}

// Describe describes workflows of a tenant, in the order of their names.
func (s *Service) Describe(ctx context.Context, h *home.Home, names []string) ([]Listed, error) {
	list := []Listed{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		source, err := s.source(ctx, h, name)
		if fault.KindOf(err) == fault.Unavailable { // a file of the operator
			list = append(list, Listed{Name: name, Origin: FromFile, Problem: fault.Message(err)})
			continue
		}
		if err != nil {
			return nil, err
		}
		l := Listed{Name: name, Origin: source.origin}
		of := s.summaries.of(source)
		if l.Problem, l.Steps = of.problem, of.steps; of.workflow != nil {
			w := of.workflow
			l.Description, l.Version, l.Inputs, l.Exported = w.Description, w.Version, w.Inputs, w.Export
			if found := s.checkExport(w); len(found) > 0 {
				l.Problem = found[0].String()
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// Names returns the names of the workflows of a tenant, sorted.
func (s *Service) Names(ctx context.Context, h *home.Home) ([]string, error) {
	var all []string
	entries, err := os.ReadDir(s.cfg.Dir)
	if s.cfg.Dir != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// source is the text of a workflow.
type source struct {
	file   string // for messages, which tenants see: without the operator's directory
	data   []byte
	origin string
}

// source returns the text of the workflow with that name. One in the directory has precedence.
func (s *Service) source(ctx context.Context, h *home.Home, name string) (source, error) {
	if !isName(name) {
		return source{}, fault.New(fault.Invalid, "%.60q is not the name of a workflow", name).
			WithHint("a name has 1 to %d letters, digits and underscores, and begins with a letter", maxName)
	}
	if s.cfg.Dir != "" {
		for _, ext := range extensions {
			data, err := readFile(filepath.Join(s.cfg.Dir, name+ext))
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
			WithHint("%s", nearestOrNone(name, all, "`sandpiper workflow check FILE` and `sandpiper workflow save FILE` add one"))
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
func (s *Service) Source(ctx context.Context, h *home.Home, name string) ([]byte, error) {
	found, err := s.source(ctx, h, name)
	return found.data, err
}

// library returns what the workflows of a tenant can refer to.
func (s *Service) library(ctx context.Context, h *home.Home) (Library, error) {
	lib := Library{Skills: []string{}}
	skills, err := h.Skills.List(ctx)
	if err != nil {
		return lib, err
	}
	for _, m := range skills {
		lib.Skills = append(lib.Skills, m.Name)
	}
	all, err := s.Names(ctx, h)
	if err != nil {
		return lib, err
	}
	lib.Workflow = func(name string) (*Workflow, []Finding, []string) {
		found, err := s.source(ctx, h, name)
		if err != nil {
			return nil, nil, all
		}
		w, findings := Parse(found.file, found.data)
		return w, findings, all
	}
	lib.Skill = func(name string) (pysource.Function, bool) {
		saved, err := h.Skills.Find(ctx, name, 0)
		if err != nil {
			return pysource.Function{}, false
		}
		return pysource.Parse([]byte(saved.Code)).Find(name)
	}
	return lib, nil
}

// Check compiles the workflow in the text of a file, and checks it with the tools of a tenant. The
// program is nil if there are findings.
func (s *Service) Check(ctx context.Context, h *home.Home, subset, file string, data []byte) (*Program, []Finding, error) {
	w, found := parse(file, data)
	if w == nil {
		return nil, found, nil
	}
	found = append(found, s.checkExport(w)...)
	lib, err := s.library(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	p, more, err := compile(ctx, w, lib, nil)
	if err != nil {
		return nil, nil, err
	}
	if found = append(found, more...); p != nil {
		more, err = examine(ctx, s, h, subset, p, lib)
		if err != nil && (len(found) == 0 || ctx.Err() != nil) {
			return nil, nil, err
		}
		found = append(found, more...)
	}
	if len(found) > 0 {
		return nil, arranged(found), nil
	}
	return p, nil, nil
}

// examine examines a program. If parts of it are not Python, it checks the uses of tools without them.
func examine(ctx context.Context, s *Service, h *home.Home, subset string, p *Program, lib Library) ([]Finding, error) {
	found, unparsable, err := p.examine(ctx, s.cfg.Runner.Code, h, subset)
	if err != nil || len(unparsable) == 0 {
		return found, err
	}
	rest, _, err := compile(ctx, p.Workflow, lib, unparsable)
	if err != nil || rest == nil {
		return found, err
	}
	rest.Expressions = nil // were examined
	more, _, err := rest.examine(ctx, s.cfg.Runner.Code, h, subset)
	return append(found, more...), err
}

// Load is Check for the workflow with that name. Findings are an error.
func (s *Service) Load(ctx context.Context, h *home.Home, subset, name string) (*Program, error) {
	found, err := s.source(ctx, h, name)
	if err != nil {
		return nil, err
	}
	p, findings, err := s.Check(ctx, h, subset, found.file, found.data)
	if err != nil {
		return nil, err
	}
	return p, Invalid(findings)
}

// maxShown limits the findings in an error.
const maxShown = 20

// Invalid returns the error of a workflow that has findings; nil if there are none.
func Invalid(found []Finding) error {
	if len(found) == 0 {
		return nil
	}
	var lines []string
	for _, f := range found[:min(len(found), maxShown)] {
		lines = append(lines, f.String())
	}
	if more := len(found) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fault.New(fault.Invalid, "the workflow is wrong: %s", strings.Join(lines, "\n")).
		WithHint("nothing was run or saved; correct it")
}

// Save saves a workflow of a tenant if it has no findings. It returns its name.
func (s *Service) Save(ctx context.Context, h *home.Home, subset string, data []byte) (string, error) {
	p, findings, err := s.Check(ctx, h, subset, "workflow", data)
	if err = errors.Join(err, Invalid(findings)); err != nil {
		return "", err
	}
	name := p.Workflow.Name
	if found, err := s.source(ctx, h, name); err == nil && found.origin == FromFile {
		return "", fault.New(fault.Denied, "the workflow %s is a file of the operator", name).WithHint("save it under another name")
	}
	if p.Workflow.Export {
		if err := s.checkExports(ctx, h, name); err != nil {
			return "", err
		}
	}
	return name, saved.Open(h).Save(ctx, name, data)
}

// Start starts a run of a program with inputs, a JSON object, and returns its execution at once.
func (s *Service) Start(ctx context.Context, h *home.Home, subset string, p *Program, inputs json.RawMessage) (*execution.Execution, error) {
	req, err := p.request(inputs)
	if err != nil {
		return nil, err
	}
	req.Subset = subset
	return s.cfg.Runner.Start(ctx, h, req)
}

// Compile is an execution.Compile: it adds the code and the limits of a workflow to a request.
func (s *Service) Compile(ctx context.Context, h *home.Home, req execution.Request) (execution.Request, error) {
	var vars struct{ Inputs json.RawMessage }
	if err := json.Unmarshal(req.Vars, &vars); err != nil {
		return req, err
	}
	p, err := s.Load(ctx, h, req.Subset, req.Workflow.Name)
	if err != nil {
		return req, err
	}
	of, err := p.request(vars.Inputs)
	of.Subset, of.Description = req.Subset, req.Description
	return of, err
}

// CheckInputs reports that there is no workflow of that name, or that it does not take the inputs.
func (s *Service) CheckInputs(ctx context.Context, h *home.Home, name string, inputs json.RawMessage) error {
	found, err := s.source(ctx, h, name)
	if err != nil {
		return err
	}
	w, findings := Parse(found.file, found.data)
	if len(findings) > 0 {
		return Invalid(findings)
	}
	_, err = w.Fill(inputs)
	return err
}

// request returns the request for a run with inputs.
func (p *Program) request(inputs json.RawMessage) (execution.Request, error) {
	w := p.Workflow
	filled, err := w.Fill(inputs)
	if err != nil {
		return execution.Request{}, err
	}
	return execution.Request{
		Code: p.Code, Vars: json.RawMessage(`{"inputs":` + string(filled) + `}`),
		Timeout: w.Guardrails.Timeout, MemoryMB: w.Guardrails.MemoryMB, Tools: w.Guardrails.Tools,
		Description: "workflow " + w.Name, Workflow: execution.Workflow{Name: w.Name, Version: w.Version},
	}, nil
}
