package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	sources
	runner    *execution.Runner
	isTool    func(name string) bool
	summaries summaries
}

// New returns a Service. It does no I/O.
func New(cfg Config) (*Service, error) {
	if cfg.Runner == nil {
		return nil, errors.New("workflow: Config needs a Runner")
	}
	if cfg.IsTool == nil {
		cfg.IsTool = func(string) bool { return false }
	}
	return &Service{sources: sources{cfg.Dir}, runner: cfg.Runner, isTool: cfg.IsTool}, nil
}

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
			if found := checkToolName(w, s.isTool); len(found) > 0 {
				l.Problem = found[0].String()
			}
		}
		list = append(list, l)
	}
	return list, nil
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
	found = append(found, checkToolName(w, s.isTool)...)
	lib, err := s.library(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	p, more, err := compile(ctx, w, lib, nil)
	if err != nil {
		return nil, nil, err
	}
	if found = append(found, more...); p != nil {
		p, more, err = examine(ctx, s, h, subset, p, lib)
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

// examine examines a program, and returns the one that can be run. If parts of it are not Python, it checks the
// uses of tools without them.
func examine(ctx context.Context, s *Service, h *home.Home, subset string, p *Program, lib Library) (*Program, []Finding, error) {
	found, replaced, whole, err := p.examine(ctx, s.runner.Code, h, subset)
	if err != nil || len(replaced) == 0 {
		return p, found, err
	}
	rest, _, err := compile(ctx, p.Workflow, lib, replaced)
	if err != nil || rest == nil || whole {
		return rest, found, err
	}
	rest.Expressions = nil // were examined
	more, _, _, err := rest.examine(ctx, s.runner.Code, h, subset)
	return rest, append(found, more...), err
}

// Load is Program for the workflow with that name.
func (s *Service) Load(ctx context.Context, h *home.Home, subset, name string) (*Program, error) {
	found, err := s.source(ctx, h, name)
	if err != nil {
		return nil, err
	}
	return s.Program(ctx, h, subset, found.file, found.data)
}

// Program is Check whose findings are an error.
func (s *Service) Program(ctx context.Context, h *home.Home, subset, file string, data []byte) (*Program, error) {
	p, findings, err := s.Check(ctx, h, subset, file, data)
	if err == nil {
		err = invalid(findings)
	}
	return p, err
}

// maxShown limits the findings in an error.
const maxShown = 20

// invalid returns the error of a workflow that has findings; nil if there are none.
func invalid(found []Finding) error {
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
	p, err := s.Program(ctx, h, subset, "workflow", data)
	if err != nil {
		return "", err
	}
	name := p.Workflow.Name
	if found, err := s.source(ctx, h, name); err == nil && found.origin == FromFile {
		return "", fault.New(fault.Denied, "the workflow %s is a file of the operator", name).WithHint("save it under another name")
	}
	if p.Workflow.Export {
		if err := (exports{flows: s}).checkRoom(ctx, h, name); err != nil {
			return "", err
		}
	}
	return name, saved.Open(h).Save(ctx, name, data)
}

// Start starts a run of a program with inputs, a JSON object, and returns its execution at once.
func (s *Service) Start(ctx context.Context, h *home.Home, subset string, p *Program, inputs json.RawMessage) (*execution.Execution,
	error) {
	req, err := p.request(inputs)
	if err != nil {
		return nil, err
	}
	req.Subset = subset
	return s.runner.Start(ctx, h, req)
}

// run checks and starts the workflow with that name.
func (s *Service) run(ctx context.Context, h *home.Home, subset, name string, inputs json.RawMessage) (*execution.Execution, error) {
	p, err := s.Load(ctx, h, subset, name)
	if err != nil {
		return nil, err
	}
	return s.Start(ctx, h, subset, p, inputs)
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
