package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// Config of a Runner.
type Config struct {
	Backend sandbox.Backend // required
	Queue   *admit.Queue    // required
	Limits  Limits          // time and memory; zero fields take their defaults
	// BackgroundTimeout is the time limit of background executions; 0 means one hour.
	BackgroundTimeout time.Duration
	// AnswerGrace is how long a background execution with open questions keeps its process; 0 means 2 s.
	AnswerGrace time.Duration
	// Sandbox contains the other limits of every execution. Zero means 128 processes,
	// 256 open files, 1 GiB per file, 600 s of CPU, 64 MiB of result, and no disk
	// monitoring. Memory is set for each execution.
	Sandbox sandbox.Limits
	// Settings returns the limits of a tenant, which replace those here; nil means that all
	// tenants have these.
	Settings func(tenant.ID) Settings
	// SubsetModules returns the key of the generated modules that code of a tenant sees in a
	// subset of the servers, and what identifies these servers and tools; nil means those of the
	// tenant.
	SubsetModules func(id tenant.ID, subset string) (modules, selection string)
	Restriction   Restriction // of all code
	Network       Network     // of tenants with Settings.Network
	ReplyBytes    int         // maximum of the value, and of the output, in a reply; 0 means 16 KiB
	OutputBytes   int64       // output limit of an execution; 0 means 64 MiB
	Scratch       string      // directory for large output before it is stored; "" means the system's temporary directory
	// limit for opening a sandbox, which includes unpacking Python the first time; 0 means one minute
	OpenWait      time.Duration
	ProgressEvery time.Duration            // minimum interval between two Progress events of one handle; 0 means 100 ms
	HostCalls     func() []hostcall.Source // besides those of the core; nil means none
	Tools         *Tools                   // what code may call; nil means nothing
	Privacy       *redact.Rules            // which private values code gets; nil means all of them, and no tokens
	// Guard returns the guardrails in force, which check code before it runs; nil, or a nil result,
	// checks nothing.
	Guard       func() *guardrail.Guard
	Sessions    Sessions            // limits of live interpreters; zero fields take their defaults
	RetainEnded int                 // ended executions retained for Attach; 0 means 64, negative none
	RetainFor   time.Duration       // how long; 0 means one minute
	Memory      *memory.Budget      // of the calls of code, by tenant; nil means no limit
	Audit       func(audit.Line)    // receives a line when an execution has ended; nil means that there is no audit log
	Telemetry   *telemetry.Recorder // nil records nothing
	Log         *slog.Logger        // nil discards
}

func (c Config) withDefaults() Config {
	if c.HostCalls == nil {
		c.HostCalls = func() []hostcall.Source { return nil }
	}
	c.Limits = c.Limits.WithDefaults()
	c.Sandbox.Processes = cmp.Or(c.Sandbox.Processes, 128)
	c.Sandbox.OpenFiles = cmp.Or(c.Sandbox.OpenFiles, 256)
	c.Sandbox.FileBytes = cmp.Or(c.Sandbox.FileBytes, 1<<30)
	c.Sandbox.CPU = cmp.Or(c.Sandbox.CPU, 600*time.Second)
	c.Sandbox.ResultBytes = cmp.Or(c.Sandbox.ResultBytes, 64<<20)
	c.BackgroundTimeout = cmp.Or(c.BackgroundTimeout, time.Hour)
	c.AnswerGrace = cmp.Or(c.AnswerGrace, 2*time.Second)
	c.ReplyBytes = cmp.Or(c.ReplyBytes, 16<<10)
	c.OutputBytes = cmp.Or(c.OutputBytes, 64<<20)
	c.OpenWait = cmp.Or(c.OpenWait, time.Minute)
	c.ProgressEvery = cmp.Or(c.ProgressEvery, 100*time.Millisecond)
	c.RetainEnded = cmp.Or(c.RetainEnded, 64)
	c.RetainFor = cmp.Or(c.RetainFor, time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Guard == nil {
		c.Guard = func() *guardrail.Guard { return nil }
	}
	return c
}

// Tools are the components that serve calls of code to the outside.
type Tools = tools.Components

// Sessions limits the live interpreters of a Runner.
type Sessions = sessions.Limits

// Restriction is a part of Python that code is limited to. The zero value is all of it.
type Restriction struct {
	Module  string // of a feature; see sandbox.Program
	Library string // what code has of the standard library, for the description of execute_code
}

// On reports whether there is a restriction.
func (r Restriction) On() bool { return r.Module != "" }

// Network is how code sends HTTP requests. The zero value is not at all.
type Network struct {
	Module string // of a feature; see sandbox.Program
	Server string // whose tools send them, of the names of methods in small letters
}

// Runner starts executions.
type Runner struct {
	Code        pycode.Checker // checks code without running it
	Restriction Restriction    // of all code
	Network     Network        // of tenants with Settings.Network

	cfg          Config
	passGate     *redact.Gate // changes nothing
	registry     *registry
	interpreters *sessions.Pool
	busy         sync.WaitGroup // executions

	largeMu sync.Mutex // held while a large file is in memory
}

// closeGrace is how long Close waits for cancelled executions.
const closeGrace = 10 * time.Second

// New returns a Runner. The caller must close it before the backend.
func New(cfg Config) (*Runner, error) {
	if cfg.Backend == nil || cfg.Queue == nil {
		return nil, errors.New("execution: Config needs a Backend and a Queue")
	}
	cfg = cfg.withDefaults()
	off, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		return nil, err
	}
	cfg.Privacy = cmp.Or(cfg.Privacy, off)
	r := &Runner{Restriction: cfg.Restriction, Network: cfg.Network, cfg: cfg, passGate: off.For(redact.Owner{}),
		registry: newRegistry(cfg.RetainEnded, cfg.RetainFor)}
	r.interpreters = sessions.NewPool(cfg.Sessions, func(id tenant.ID) int { return r.settings(id).Interpreters }, cfg.Log)
	r.Code = pycode.Checker{
		Run: func(ctx context.Context, h *home.Home, code string, vars json.RawMessage) (reply.Result, error) {
			return runInternal(ctx, r, h, code, vars)
		},
		Guard: cfg.Guard, Privacy: cfg.Privacy, Tools: cfg.Tools, Network: func(id tenant.ID) bool { return r.settings(id).Network },
	}
	return r, nil
}

// Skills marks the skills of a tenant by the tools that code in a subset of the servers sees.
func (r *Runner) Skills(h *home.Home, subset string) skills.Marker {
	return skills.Marker{Store: h.Skills, View: r.cfg.Tools.For(h.ID(), subset), Log: r.cfg.Log}
}

// Audit writes a line to the audit log, if there is one.
func (r *Runner) Audit(line audit.Line) {
	if r.cfg.Audit != nil {
		r.cfg.Audit(line)
	}
}

// EndTenant cancels the executions of a suspended tenant and ends its live interpreters. It waits
// for them, at most closeGrace. The caller prevents new ones.
func (r *Runner) EndTenant(id tenant.ID) {
	r.registry.cancel(reply.ErrSuspended, func(owner tenant.ID) bool { return owner == id })
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	r.interpreters.EndTenant(ctx, id)
}

// Close refuses new executions, lets running ones complete until ctx ends, cancels the
// rest and waits for them. It is idempotent. The error means that a backend did not end
// its sandboxes in time.
func (r *Runner) Close(ctx context.Context) error {
	defer r.interpreters.Close()
	r.registry.close(reply.ErrStopping)
	ended := make(chan struct{})
	go func() {
		r.busy.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		r.registry.cancel(reply.ErrStopping, func(tenant.ID) bool { return true })
	}
	select {
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return errors.New("execution: cancelled executions did not end")
	}
}

// Settings are the limits of one tenant's executions.
type Settings struct {
	Limits         Limits
	WorkspaceDisk  int64          // bytes that the workspace may contain; 0 means no limit
	WorkspaceFiles int64          // files and directories; 0 means no limit
	OutputBytes    int64          // output of an execution; 0 means 64 MiB
	Interpreters   int            // live interpreters; 0 means 8
	Sandbox        policy.Sandbox // in which code runs, unless policy requires a stronger one; zero means Process
	PackageLayer   string         // see sandbox.Spec
	Network        bool           // code may send requests, by Config.Network
}

// settings returns the limits of a tenant's executions.
func (r *Runner) settings(id tenant.ID) Settings {
	c := r.cfg
	s := Settings{Limits: c.Limits, WorkspaceDisk: c.Sandbox.WorkspaceDisk, WorkspaceFiles: c.Sandbox.WorkspaceFiles,
		OutputBytes: c.OutputBytes, Interpreters: c.Sessions.PerTenant}
	if c.Settings != nil {
		s = c.Settings(id)
	}
	s.Sandbox = cmp.Or(s.Sandbox, policy.Process)
	s.Limits = s.Limits.WithDefaults()
	s.OutputBytes = cmp.Or(s.OutputBytes, 64<<20)
	s.Interpreters = cmp.Or(s.Interpreters, Sessions{}.WithDefaults().PerTenant)
	return s
}

// Limits returns the time and memory limits of a tenant's executions.
func (r *Runner) Limits(id tenant.ID) Limits { return r.settings(id).Limits }
