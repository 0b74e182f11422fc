package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Config of a Solver.
type Config struct {
	Tools     *execution.Tools // required
	Generator Generator        // required without Sampling
	// Sampling returns the generator for a task whose client has the model; sample is nil if it
	// has none. nil means Generator.
	Sampling func(sample Sample) (Generator, error)
	// Remote means that the generator sends texts to a model, so that they are redacted.
	Remote  bool
	Repairs int // programs that may follow the first one; 0 means 3, negative none
}

// Solver solves tasks: it selects tools, lets the generator write a program, runs it, and repairs
// it if it fails. It is safe for concurrent use.
type Solver struct{ cfg Config }

// New returns a Solver.
func New(cfg Config) (*Solver, error) {
	if cfg.Tools == nil || cfg.Generator == nil && cfg.Sampling == nil {
		return nil, errors.New("task: Config needs Tools, and a Generator or Sampling")
	}
	switch {
	case cfg.Repairs == 0:
		cfg.Repairs = 3
	case cfg.Repairs < 0:
		cfg.Repairs = 0
	}
	return &Solver{cfg}, nil
}

// Task is a task for one tenant.
type Task struct {
	Query
	Home *home.Home   // required
	Gate *redact.Gate // to the model; required
	// Request has the other settings of the executions: session, subset, limits, dry run.
	Request execution.Request
	// Run runs a program and waits for its end.
	Run func(context.Context, execution.Request) (reply.Result, error)
	// Progress receives messages about the current step; nil discards them.
	Progress func(message string)
	// Sample asks the model of the client, if the Solver uses that; nil means that it has none.
	Sample Sample
}

// Result is the result of a task. The JSON keys are those of execute_task's answer.
type Result struct {
	Success     bool            `json:"success"`
	Value       json.RawMessage `json:"result"`
	Output      []string        `json:"output"`
	Error       string          `json:"error,omitempty"`
	ErrorType   string          `json:"error_type,omitempty"`
	Hint        string          `json:"hint,omitempty"`
	Code        string          `json:"code"`             // the last program; "" if there is none
	Tools       []string        `json:"tools"`            // those that it may call
	Share       float64         `json:"tools_used_share"` // of the available tools, 0 to 1
	Available   int             `json:"tools_available"`
	SavedTokens int64           `json:"saved_tokens"` // definitions that nobody had to read
	Attempts    []Attempt       `json:"attempts,omitempty"`
	Usage       *Usage          `json:"usage,omitempty"` // nil without a model
	ExecutionID string          `json:"execution_id,omitempty"`

	Last *reply.Result `json:"-"` // the result of the last program; nil if none ran
}

// Solve solves a task. An error means that the task could not be tried; otherwise the result reports
// whether it was solved.
func (s *Solver) Solve(ctx context.Context, t Task) (Result, error) {
	if err := t.check(); err != nil {
		return Result{}, err
	}
	w := &work{solver: s, task: t, generator: s.cfg.Generator, result: Result{Output: []string{}}}
	if s.cfg.Sampling != nil {
		var err error
		if w.generator, err = s.cfg.Sampling(t.Sample); err != nil {
			return Result{}, err
		}
	}
	s.awaitServers(ctx, t.viewer(), t.progress)
	if err := w.selectTools(ctx, t.Task); err != nil {
		return Result{}, err
	}
	var failed *Attempt
	for range s.cfg.Repairs + 1 {
		next, err := w.attempt(ctx, failed)
		if err != nil {
			return Result{}, err
		}
		if next == nil {
			return w.result, nil
		}
		failed = next
		w.result.Attempts = append(w.result.Attempts, *next)
	}
	return w.result, nil
}

// Select returns the tools that match a task, of those that a viewer sees, and functions of the
// viewer's code, with these skills. It waits for servers that have not listed their tools.
func (s *Solver) Select(ctx context.Context, viewer catalog.Viewer, skills *skill.Store, q Query) (Selection, error) {
	if err := q.check(); err != nil {
		return Selection{}, err
	}
	s.awaitServers(ctx, viewer, func(string, ...any) {})
	return s.selectNow(ctx, viewer, skills, q)
}

func (s *Solver) selectNow(ctx context.Context, viewer catalog.Viewer, skills *skill.Store, q Query) (Selection, error) {
	own, err := s.cfg.Tools.Find.For(viewer).WithSkills(skills).Functions(ctx)
	if err != nil {
		return Selection{}, err
	}
	return Select(ctx, s.cfg.Tools.Catalog.For(viewer), own, q)
}

// Samples reports whether the Solver uses the models of clients.
func (s *Solver) Samples() bool { return s.cfg.Sampling != nil }

// viewer is the caller that sees the tools of a task.
func (t Task) viewer() catalog.Viewer {
	return catalog.Viewer{Tenant: t.Home.ID(), Subset: t.Request.Subset}
}

// awaitServers waits until servers that were never listed have listed their tools, or failed to.
func (s *Solver) awaitServers(ctx context.Context, viewer catalog.Viewer, progress func(string, ...any)) {
	var names []string
	for _, v := range s.cfg.Tools.Catalog.For(viewer).Servers {
		if v.Connected && v.Listed.IsZero() {
			names = append(names, v.Name)
		}
	}
	if len(names) > 0 {
		progress("waiting for %s", strings.Join(names, ", "))
		s.cfg.Tools.Calls.AwaitTools(ctx, names...) // the tools of the others may suffice
	}
}

func (t Task) progress(format string, args ...any) {
	if t.Progress != nil {
		t.Progress(fmt.Sprintf(format, args...))
	}
}

// work is the state of one Solve.
type work struct {
	solver    *Solver
	task      Task
	generator Generator
	tools     []Described
	callable  []string // tools that the program may call: the selected ones, and those of selected functions
	result    Result
}

// selectTools selects the tools of a query, and describes them for the generator.
func (w *work) selectTools(ctx context.Context, query string) error {
	w.task.progress("selecting tools")
	q := w.task.Query
	q.Task = query
	skills := w.task.Home.Skills
	selected, err := w.solver.selectNow(ctx, w.task.viewer(), skills, q)
	if err != nil {
		return err
	}
	find := w.solver.cfg.Tools.Find.For(w.task.viewer()).WithSkills(skills)
	w.tools, w.result.Tools, w.callable = nil, []string{}, []string{}
	for _, t := range selected.Tools {
		d, err := find.Define(ctx, w.task.Home.Shapes, t.Name, "")
		if err != nil {
			return err
		}
		w.tools = append(w.tools, Described{
			Name:        t.Name,
			Description: d.Description,
			Import:      d.Import,
			Signature:   d.Signature,
			Input:       d.Input,
			Output:      d.Output,
		})
		w.result.Tools = append(w.result.Tools, t.Name)
		w.callable = append(append(w.callable, t.Name), t.Calls...)
	}
	w.result.Share, w.result.Available = selected.Share, selected.Available
	w.result.SavedTokens = selected.AllTokens - selected.Tokens
	return nil
}

// attempt lets the generator write one program and runs it. It returns nil when the task has
// ended, else the failed attempt.
func (w *work) attempt(ctx context.Context, failed *Attempt) (*Attempt, error) {
	if failed == nil {
		w.task.progress("writing the program")
	} else {
		w.task.progress("repairing the program (%d of %d)", len(w.result.Attempts), w.solver.cfg.Repairs)
	}
	answer, err := w.generate(ctx, failed)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrNoProgram):
		if w.result.Error == "" { // otherwise the reason of the first failure is more specific
			w.fail(err)
		}
		return &Attempt{Error: fault.Message(err)}, nil
	case err != nil && failed != nil && w.result.Error != "": // the reason of the first failure is more specific
		if w.solver.cfg.Remote {
			w.result.Hint = "there was no further attempt: " + fault.Message(err)
		}
		return nil, nil
	case err != nil:
		w.fail(err)
		return nil, nil
	case answer.Search != "":
		w.result.Error = fmt.Sprintf("the generator asked for other tools again: %.100q", answer.Search)
		return &Attempt{Error: "these tools were found for: " + answer.Search}, w.selectTools(ctx, answer.Search)
	}
	return w.run(ctx, answer.Code)
}

// fail records an error without a program.
func (w *work) fail(err error) {
	w.result.Error, w.result.Hint, w.result.ErrorType = fault.Message(err), fault.Hint(err), "task"
	if w.result.Available == 0 && fault.KindOf(err) == fault.NotFound {
		w.result.Hint = w.solver.cfg.Tools.Find.For(w.task.viewer()).ServerStates()
	}
}

// generate asks the generator for a program, and adds up its cost.
func (w *work) generate(ctx context.Context, failed *Attempt) (Answer, error) {
	r := Request{Task: w.task.Task, Tools: w.tools, Failed: failed, Progress: w.countText()}
	if w.result.Usage != nil {
		r.Spent = *w.result.Usage
	}
	if w.solver.cfg.Remote {
		if err := w.tokenize(ctx, &r); err != nil {
			return Answer{}, err
		}
	}
	counts := w.solver.cfg.Remote && w.solver.cfg.Sampling == nil // the client pays for its own model
	if counts {
		if err := w.task.Home.Quotas.Check(ctx, quota.ModelTokens); err != nil {
			return Answer{}, err
		}
	}
	began := time.Now()
	answer, err := w.generator.Generate(ctx, r)
	if u := answer.Usage; counts && u.Requests > 0 {
		w.task.Home.Quotas.AddModel(quota.ModelUse{Requests: int64(u.Requests), Input: u.InputTokens, Output: u.OutputTokens, Cost: u.Cost})
	}
	if u := answer.Usage; u.Model != "" {
		u.Duration = time.Since(began)
		if w.result.Usage == nil {
			w.result.Usage = &Usage{}
		}
		w.result.Usage.Add(u)
	}
	return answer, err
}

// tokenize replaces personal data by tokens in the texts of a request.
func (w *work) tokenize(ctx context.Context, r *Request) (err error) {
	replace := func(text string) string {
		if err == nil {
			text, err = w.task.Gate.Tokenize(ctx, "", text)
		}
		return text
	}
	r.Task = replace(r.Task)
	r.Tools = slices.Clone(r.Tools)
	for i, t := range r.Tools {
		r.Tools[i].Signature, r.Tools[i].Description = replace(t.Signature), replace(t.Description)
		r.Tools[i].Input, r.Tools[i].Output = validOrNone(replace(string(t.Input))), validOrNone(replace(string(t.Output)))
	}
	if r.Failed != nil {
		r.Failed = &Attempt{Code: r.Failed.Code, Error: replace(r.Failed.Error)}
	}
	return err
}

// validOrNone returns a schema, or nil if it is not JSON any more.
func validOrNone(schema string) json.RawMessage {
	if !json.Valid([]byte(schema)) {
		return nil
	}
	return json.RawMessage(schema)
}

// reportEvery is the interval of reports about the text that a model generates.
const reportEvery = 2 * time.Second

// countText returns a function that reports the amount of generated text, or nil if the task has
// no Progress.
func (w *work) countText() func(string) {
	if w.task.Progress == nil {
		return nil
	}
	written, last := 0, time.Now()
	return func(part string) {
		written += len(part)
		if time.Since(last) >= reportEvery {
			last = time.Now()
			w.task.progress("writing the program: %d bytes", written)
		}
	}
}

// final are the failures that another program cannot repair.
var final = map[string]bool{reply.TypeApproval: true, reply.TypeCancelled: true, reply.TypeGuardrail: true}

// run runs a program, which may call the selected tools only.
func (w *work) run(ctx context.Context, code string) (*Attempt, error) {
	w.task.progress("running the program")
	req := w.task.Request
	req.Code, req.Description, req.Tools = code, w.task.Task, w.callable
	done, err := w.task.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	r := &w.result
	r.Code, r.Last, r.ExecutionID = code, &done, done.ExecutionID
	r.Success, r.Value, r.Output = done.Success(), done.Value, done.Output
	r.Error, r.ErrorType, r.Hint = done.Error, done.ErrorType, done.Hint
	if r.Success || final[done.ErrorType] {
		return nil, nil
	}
	if len(done.Unknown) > 0 { // another program would make the calls again
		r.Hint = "it was not repaired, because it is unknown whether " + strings.Join(done.Unknown,
			", ") + " took effect: check that before you run it again"
		return nil, nil
	}
	text := done.Error
	if done.Traceback != "" {
		text = done.Traceback
	}
	return &Attempt{Code: code, Error: text}, nil
}
