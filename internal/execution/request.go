package execution

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/sessions"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Request describes an execution. It is a plain value that survives JSON.
type Request struct {
	Code     string          `json:"code"`                // Python 3.14 source; required
	Vars     json.RawMessage `json:"vars,omitempty"`      // JSON object whose keys become globals; nil or null means none
	Timeout  time.Duration   `json:"timeout,omitempty"`   // running time; 0 means Limits.Timeout
	MemoryMB int             `json:"memory_mb,omitempty"` // 0 means Limits.MemoryMB, or the memory of the session's interpreter
	// SessionID names the session whose interpreter the execution continues; "" means none.
	SessionID string `json:"session_id,omitempty"`
	// DryRun collects tool calls that may change something in a plan instead of making
	// them. It cannot be combined with SessionID.
	DryRun bool `json:"dry_run,omitempty"`
	// Subset names the servers that the code may use, among those of the tenant; "" means all.
	Subset string `json:"subset,omitempty"`
	// Tools are the only tools that the code may use, as SERVER.TOOL; nil means all.
	Tools []string `json:"tools,omitzero"`
	// Description is the purpose of the code, for the session's log.
	Description string `json:"description,omitempty"`
	// Client is the name and version of the client that asks, which persons who approve calls see; "" means
	// that it is not known.
	Client string `json:"client,omitempty"`
	// Workflow is the workflow from which the code was compiled; the zero value means none.
	Workflow Workflow `json:"workflow,omitzero"`
	// Commands completes the commands in the errors of calls, which the code may catch.
	Commands fault.Commands `json:"commands,omitzero"`
	// Background is set if no caller waits for the execution: its time limit is that of
	// background executions.
	Background bool `json:"background,omitempty"`
	// Tape records or replays the answers that the code receives from outside; nil does neither.
	Tape Tape `json:"-"`
	// Replay reruns a step of a session's log without adding to the log; nil means not.
	Replay *sessions.Rerun `json:"-"`
}

// StoredRequest is the stored part of a run that starts it, or runs it again.
type StoredRequest struct {
	Request Request `json:"request"`
	Seed    []byte  `json:"seed,omitempty"` // of randomness in the code, once it has run
	Task    string  `json:"task,omitempty"` // in words; the code is written when it runs
	// Uncounted executions are counted by the quotas of the tenant when they start.
	Uncounted bool `json:"uncounted,omitempty"`
}

// Tape records, or replays, the calls of one execution to services outside its tenant's data.
type Tape interface {
	// Call answers a call of the code, which call makes.
	Call(ctx context.Context, gate *redact.Gate, method string, args json.RawMessage, call func() (any, error)) (any, error)
	// SetResult receives the complete result of the code.
	SetResult(json.RawMessage)
}

// Workflow names the workflow that an execution runs.
type Workflow struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// MaxVarsBytes limits the variables of a request.
const MaxVarsBytes = 16 << 20

// Limits are the time and memory limits of executions: defaults and maxima.
type Limits struct {
	// default; 0 means 30 s
	Timeout time.Duration `key:"timeout,tenant" project:"lower"`
	// 0 means 300 s
	MaxTimeout time.Duration `key:"max_timeout,tenant" project:"lower" alias:"guardrails.max_execution_time"`
	// default; 0 means 500
	MemoryMB    int `key:"memory_mb,tenant" range:"1 1048576" project:"lower"`
	MaxMemoryMB int `key:"max_memory_mb,tenant" range:"1 1048576" project:"lower" alias:"guardrails.max_memory_mb"` // 0 means 2048
	MinMemoryMB int // the minimum for CPython; 0 means 64
}

// WithDefaults fills the zero fields. A default above its maximum becomes the maximum.
func (l Limits) WithDefaults() Limits {
	l.MaxTimeout = cmp.Or(l.MaxTimeout, 300*time.Second)
	l.Timeout = min(cmp.Or(l.Timeout, 30*time.Second), l.MaxTimeout)
	l.MinMemoryMB = cmp.Or(l.MinMemoryMB, 64)
	l.MaxMemoryMB = max(cmp.Or(l.MaxMemoryMB, 2048), l.MinMemoryMB)
	l.MemoryMB = max(min(cmp.Or(l.MemoryMB, 500), l.MaxMemoryMB), l.MinMemoryMB)
	return l
}

// Seconds returns the duration of s seconds, clamped to the range of a Duration, so
// that CheckTimeout rejects it.
func Seconds(s float64) time.Duration {
	switch ns := s * float64(time.Second); {
	case math.IsNaN(ns):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	default:
		return time.Duration(ns)
	}
}

// CheckTimeout rejects a timeout that is out of range. In a Request, zero means the
// default; a front end whose caller passed an explicit zero calls CheckTimeout itself.
func (l Limits) CheckTimeout(d time.Duration) error {
	l = l.WithDefaults()
	if d <= 0 || d > l.MaxTimeout {
		e := fault.New(fault.Invalid, "timeout_seconds is %s; it must be more than 0 and at most %s",
			reply.FormatSeconds(d), reply.FormatSeconds(l.MaxTimeout))
		if d > l.MaxTimeout {
			e = e.WithHint("do less in one call, or ask the operator to raise sandbox.max_timeout")
		}
		return e
	}
	return nil
}

// CheckMemory rejects a memory limit that is out of range; see CheckTimeout about zero.
func (l Limits) CheckMemory(mb int) error {
	l = l.WithDefaults()
	if mb < l.MinMemoryMB || mb > l.MaxMemoryMB {
		e := fault.New(fault.Invalid, "memory_mb is %d; it must be between %d and %d", mb, l.MinMemoryMB, l.MaxMemoryMB)
		if mb > l.MaxMemoryMB {
			e = e.WithHint("process the data in pieces, or ask the operator to raise sandbox.max_memory_mb")
		}
		return e
	}
	return nil
}

// Check returns a request of a tenant with defaults filled in, or an error if it is invalid.
func (r *Runner) Check(id tenant.ID, req Request) (Request, error) {
	return limitsOf(r, id, req).check(req)
}

// limitsOf returns the limits of a request.
func limitsOf(r *Runner, id tenant.ID, req Request) Limits {
	l := r.Limits(id)
	if req.Background {
		l.MaxTimeout = max(l.MaxTimeout, r.cfg.BackgroundTimeout)
		l.Timeout = l.MaxTimeout
	}
	return l
}

// check returns req with defaults filled in, or an error if it is invalid.
func (l Limits) check(req Request) (Request, error) {
	if err := pycode.Check(req.Code); err != nil {
		return req, err
	}
	if err := checkVars(req.Vars); err != nil {
		return req, err
	}
	req.Timeout = cmp.Or(req.Timeout, l.Timeout)
	if err := l.CheckTimeout(req.Timeout); err != nil {
		return req, err
	}
	if req.MemoryMB != 0 {
		if err := l.CheckMemory(req.MemoryMB); err != nil {
			return req, err
		}
	}
	if req.DryRun && req.SessionID != "" {
		return req, fault.New(fault.Invalid, "dry_run cannot be combined with session_id %.60q: the session's variables would reflect "+
			"calls that were not made", req.SessionID).
			WithHint("omit session_id")
	}
	if req.SessionID != "" {
		return req, session.CheckID(req.SessionID)
	}
	req.MemoryMB = cmp.Or(req.MemoryMB, l.MemoryMB)
	return req, nil
}

func checkVars(vars json.RawMessage) error {
	vars = bytes.TrimSpace(vars)
	if len(vars) == 0 || string(vars) == "null" {
		return nil
	}
	if len(vars) > MaxVarsBytes {
		return fault.New(fault.Invalid, "context_vars has %d bytes; at most %d are allowed", len(vars), MaxVarsBytes).
			WithHint("write data to a workspace file and read it from the code")
	}
	var members map[string]json.RawMessage
	if vars[0] != '{' || json.Unmarshal(vars, &members) != nil {
		return fault.New(fault.Invalid, "context_vars is %s; it must be a JSON object of variable names and values", excerpt(vars))
	}
	for name := range members {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// excerpt returns the beginning of an argument.
func excerpt(v []byte) string {
	const most = 40
	if len(v) <= most {
		return strings.ToValidUTF8(string(v), "?")
	}
	return strings.ToValidUTF8(string(v[:most]), "") + "…"
}

// keywords are the keywords of Python 3.14, without the soft ones, which may be variables.
var keywords = func() map[string]bool {
	m := make(map[string]bool)
	for _, k := range strings.Fields(`False None True and as assert async await break class continue def del elif else
		except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`) {
		m[k] = true
	}
	return m
}()

// checkName rejects a key of vars that cannot be a variable name.
func checkName(name string) error {
	switch {
	case keywords[name]:
		return fault.New(fault.Invalid, "context_vars has the key %q, a Python keyword; use another name", name)
	case strings.HasPrefix(name, "__"):
		return fault.New(fault.Invalid, "context_vars has the key %.60q; names that begin with two underscores are Python's own", name)
	case !identifier(name):
		return fault.New(fault.Invalid, "context_vars has the key %.60q; a variable name is letters, digits and underscores and does not "+
			"begin with a digit", name)
	}
	return nil
}

func identifier(name string) bool {
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return name != ""
}
