package sandpiper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	tasks "github.com/sandpiper-mcp/sandpiper/internal/feature/task"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
)

// Guardrail checks code before it runs, code of skills before it is saved, and each text in the
// arguments of tool calls.
type Guardrail struct {
	// Name is part of errors and of the audit log: letters, digits, - and _.
	Name string
	// Check allows, flags or blocks a text. A flag on code is a warning of its result; each flag is in the
	// audit log. An error, a panic, another decision, and one that takes longer than Timeout block; the
	// log has the reason.
	Check   func(ctx context.Context, text string) (Decision, error)
	Timeout time.Duration // 0 means 5 s
}

// When is the time at which a Hook runs.
type When string

// The times at which hooks run.
const (
	BeforeCall When = "before_tool_call"
	AfterCall  When = "after_tool_call"
	BeforeCode When = "before_code"
	AfterCode  When = "after_code"
)

// Hook decides about calls of tools, or about code. A call that policy blocks is blocked in any
// case.
type Hook struct {
	On   When
	Tool string // SERVER.TOOL of calls, where * matches any letters; "" means all
	// Decide allows, asks or blocks. An error, a panic, another decision, and one that takes longer than
	// Timeout block; the log has the reason.
	Decide  func(ctx context.Context, e Event) (Decision, error)
	Timeout time.Duration // 0 means 5 s
}

// Event is the argument of a Hook. It contains values, not tokens.
type Event struct {
	On        When
	Tenant    string
	Execution string          // "" if the call was not made by code
	Session   string          // "" without one
	Server    string          // of calls, as Tool and Arguments
	Tool      string          //
	Arguments json.RawMessage //
	Code      string          // of code, as Variables
	Variables json.RawMessage //
	Result    json.RawMessage // afterwards: the answer of the tool, or the result and output of the code
	Error     string          // afterwards: the error, if any
}

// Action is the action of a Decision.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Flag  Action = "flag" // of guardrails: allow and report
	Ask   Action = "ask"  // of hooks before a call: a person decides
	Block Action = "block"
)

// Decision is the decision of a Guardrail or a Hook. The zero Decision blocks.
type Decision struct {
	Action Action
	Reason string // shown to the caller; it should not contain values
}

// Generator writes the Python programs of tasks.
type Generator interface {
	// Generate returns a program. The text of an error is the error of the task; a panic is one too. The
	// context ends with the task.
	Generate(ctx context.Context, r GenerateRequest) (Program, error)
}

// GenerateRequest asks for a program. Personal data in its texts are tokens.
type GenerateRequest struct {
	Task  string
	Tools []Tool // those that the program may call
	// FailedCode and FailedError are the attempt to repair; both are "" at first.
	FailedCode, FailedError string
}

// Program is the answer of a Generator.
type Program struct {
	Code string
	// Search is set instead of Code if the tools do not suffice: a query for others.
	Search string
	// The cost of the answer, if a model gave it: see docs/tasks.md.
	Model                     string
	InputTokens, OutputTokens int64
	Cost                      float64
}

// extension returns a function that adds what is given in Go to a configuration.
func (c Config) extension() func(*config.Config) error {
	servers := c.localServers()
	var hooks []guardrail.HookConfig
	for _, h := range c.Hooks {
		hooks = append(hooks, guardrail.HookConfig{On: guardrail.EventType(h.On), Tool: h.Tool, Hook: &hook{h, c.Log}})
	}
	var checks []guardrail.Check
	for _, g := range c.Guardrails {
		check := guardrail.Check{Name: g.Name}
		if g.Check != nil {
			check.Run = g.run(c.Log)
		}
		checks = append(checks, check)
	}
	return func(to *config.Config) error {
		for _, s := range servers {
			if slices.ContainsFunc(to.Servers, func(o config.Server) bool { return o.Name == s.Name }) {
				return fmt.Errorf("Config.Servers and the configuration both have a server %q; rename one", s.Name)
			}
		}
		to.Servers = append(to.Servers, servers...)
		if c.Generator != nil {
			config.Of[tasks.Settings](to).Generator = generator{c.Generator, c.Log}
		}
		check := &to.Guardrails.Check
		if to.Guardrails.Off && len(hooks)+len(checks) > 0 {
			return errors.New("the configuration has guardrails.enabled: false, which would disable Config.Guardrails and Config.Hooks; " +
				"remove one")
		}
		if check.SkipInput && len(checks) > 0 {
			return errors.New("the configuration has guardrails.security_checks: false, which would disable Config.Guardrails; remove one")
		}
		check.Hooks, check.Checks = append(check.Hooks, hooks...), append(check.Checks, checks...)
		return nil
	}
}

// defaultTimeout is that of hooks in a configuration.
const defaultTimeout = 5 * time.Second

var errFailed = fault.New(fault.Unavailable, "it returned an error, panicked or did not answer in time")

// run returns the function of a guardrail.
func (g Guardrail) run(log *slog.Logger) func(context.Context, string) (guardrail.Verdict, string, error) {
	return func(ctx context.Context, text string) (guardrail.Verdict, string, error) {
		d, err := guarded(ctx, g.Timeout, func(ctx context.Context) (Decision, error) { return g.Check(ctx, text) })
		if err != nil {
			log.Error("a guardrail failed, which blocks", "guardrail", g.Name, "error", err)
			return "", "", errFailed
		}
		switch d.Action {
		case Allow:
			return "", "", nil
		case Flag:
			return guardrail.Flag, d.Reason, nil
		case Block:
			return guardrail.Refuse, d.Reason, nil
		}
		return guardrail.Verdict(cmp.Or(d.Action, "none")), "", nil // refused
	}
}

// hook implements guardrail.Hook.
type hook struct {
	Hook
	log *slog.Logger
}

// Decide implements guardrail.Hook.
func (h *hook) Decide(ctx context.Context, e guardrail.Event) (guardrail.Decision, error) {
	if h.Hook.Decide == nil {
		return guardrail.Decision{}, fault.New(fault.Invalid, "it has no function")
	}
	d, err := guarded(ctx, h.Timeout, func(ctx context.Context) (Decision, error) {
		return h.Hook.Decide(ctx, Event{
			On:        When(e.Type),
			Tenant:    e.Tenant,
			Execution: e.Execution,
			Session:   e.Session,
			Server:    e.Server,
			Tool:      e.Tool,
			Arguments: e.Arguments,
			Code:      e.Code,
			Variables: e.Variables,
			Result:    e.Result,
			Error:     e.Error,
		})
	})
	if err != nil {
		h.log.Error("a hook failed, which blocks", "on", string(h.On), "error", err)
		return guardrail.Decision{}, errFailed
	}
	return guardrail.Decision{Action: guardrail.Action(d.Action), Reason: d.Reason}, nil
}

// guarded calls f, and returns an error if it panics or takes longer than limit; then f may continue
// in the background.
func guarded[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(limit, defaultTimeout))
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
			}
			done <- o
		}()
		o.value, o.err = f(ctx)
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

type generator struct {
	Generator
	log *slog.Logger
}

// Generate implements task.Generator.
func (g generator) Generate(ctx context.Context, r task.Request) (answer task.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("the generator panicked", "error", p, "stack", string(debug.Stack()))
			answer, err = task.Answer{}, fault.New(fault.Unavailable, "the generator failed; the log says why")
		}
	}()
	request := GenerateRequest{Task: r.Task}
	for _, t := range r.Tools {
		request.Tools = append(request.Tools, Tool{
			Name:        t.Name,
			Description: t.Description,
			Import:      t.Import,
			Signature:   t.Signature,
			Input:       t.Input,
			Output:      t.Output,
		})
	}
	if r.Failed != nil {
		request.FailedCode, request.FailedError = r.Failed.Code, r.Failed.Error
	}
	p, err := g.Generator.Generate(ctx, request)
	answer = task.Answer{Code: p.Code, Search: p.Search, Usage: task.Usage{Model: p.Model, InputTokens: p.InputTokens,
		OutputTokens: p.OutputTokens, Cost: p.Cost}}
	if p.Model != "" {
		answer.Usage.Requests = 1
	}
	switch {
	case err != nil:
		return answer, fault.Wrap(fault.Unavailable, err, "%s", err)
	case p.Code == "" && p.Search == "":
		return answer, fault.Wrap(fault.Unavailable, task.ErrNoProgram, "the generator returned no program")
	}
	return answer, nil
}

// localServers returns the servers in this process, in the order of their names.
func (c Config) localServers() (all []config.Server) {
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := config.Server{Name: name, Trusted: true, Idle: -1, Local: &localServer{c.Servers[name]}}
		if s.Local.(*localServer).server != nil {
			c.Servers[name].AddReceivingMiddleware(recovering(name, c.Log))
		}
		all = append(all, s)
	}
	return all
}

// localServer implements upstream.Local.
type localServer struct{ server *mcp.Server }

// Connect implements upstream.Local.
func (s *localServer) Connect(context.Context) (io.ReadWriteCloser, error) {
	if s.server == nil {
		return nil, errors.New("it is nil")
	}
	requests, send := io.Pipe()
	receive, answers := io.Pipe()
	// The end of the connection closes the session.
	_, err := s.server.Connect(context.Background(), &mcp.IOTransport{Reader: requests, Writer: answers, MaxLineLength: -1}, nil)
	if err != nil {
		return nil, err
	}
	return stream{receive, send}, nil
}

// stream is this end of a connection.
type stream struct {
	*io.PipeReader
	*io.PipeWriter
}

// Close closes the connection.
func (s stream) Close() error { return errors.Join(s.PipeReader.Close(), s.PipeWriter.Close()) }

// recovering returns middleware that converts panics of a server to errors.
func recovering(name string, log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
			defer func() {
				if p := recover(); p != nil {
					log.Error("a server in this process panicked", "server", name, "method", method, "error", p, "stack",
						string(debug.Stack()))
					result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "it panicked; the log says where"}
				}
			}()
			return next(ctx, method, r)
		}
	}
}

// listServers lists the tools of the servers in this process, whose definitions may differ from those
// of an earlier run.
func (e *embedded) listServers(ctx context.Context, cfg Config) error {
	for _, name := range slices.Sorted(maps.Keys(cfg.Servers)) {
		if _, err := e.daemon.Servers.List(ctx, name); err != nil {
			return fmt.Errorf("list the tools of Config.Servers[%q]: %w", name, err)
		}
	}
	return nil
}
