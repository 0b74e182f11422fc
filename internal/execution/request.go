package execution

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

// Request asks for one execution. It is a plain value that survives JSON.
type Request struct {
	Code     string          `json:"code"`                // Python 3.14 source; required
	Vars     json.RawMessage `json:"vars,omitempty"`      // JSON object whose keys become globals; nil or null means none
	Timeout  time.Duration   `json:"timeout,omitempty"`   // running time; 0 means Limits.Timeout
	MemoryMB int             `json:"memory_mb,omitempty"` // 0 means Limits.MemoryMB, or what the session's interpreter has
	// SessionID names the session that the execution is a step of, and whose
	// interpreter it continues; empty means none.
	SessionID string `json:"session_id,omitempty"`
	// DryRun makes a plan of the calls of tools that may change something, in place
	// of making them. It goes with no session.
	DryRun bool `json:"dry_run,omitempty"`
	// Replay runs a step of the session's log again: nothing is added to it.
	Replay bool `json:"replay,omitempty"`
}

// Bounds on what a request carries.
const (
	MaxCodeBytes = 1 << 20
	MaxVarsBytes = 16 << 20
)

// Limits are the time and memory an execution gets and may ask for.
type Limits struct {
	Timeout     time.Duration // default; 0 means 30 s
	MaxTimeout  time.Duration // 0 means 300 s
	MemoryMB    int           // default; 0 means 500
	MaxMemoryMB int           // 0 means 2048
	MinMemoryMB int           // what CPython needs to start; 0 means 64
}

// WithDefaults fills the zero fields. A default above its cap is the cap.
func (l Limits) WithDefaults() Limits {
	l.MaxTimeout = or(l.MaxTimeout, 300*time.Second)
	l.Timeout = min(or(l.Timeout, 30*time.Second), l.MaxTimeout)
	l.MinMemoryMB = or(l.MinMemoryMB, 64)
	l.MaxMemoryMB = max(or(l.MaxMemoryMB, 2048), l.MinMemoryMB)
	l.MemoryMB = max(min(or(l.MemoryMB, 500), l.MaxMemoryMB), l.MinMemoryMB)
	return l
}

func or[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Seconds is the duration of s seconds; what no duration can hold becomes the
// nearest that can, so that CheckTimeout refuses it by name.
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

// CheckTimeout refuses a running time out of bounds. A Request takes zero for
// the default, so a face whose caller wrote a zero asks here.
func (l Limits) CheckTimeout(d time.Duration) error {
	l = l.WithDefaults()
	if d <= 0 || d > l.MaxTimeout {
		e := fault.New(fault.Invalid, "timeout_seconds is %s; it must be more than 0 and at most %s",
			number(d), number(l.MaxTimeout))
		if d > l.MaxTimeout {
			e = e.WithHint("do less in one call, or ask the operator to raise sandbox.max_timeout")
		}
		return e
	}
	return nil
}

// CheckMemory refuses a memory limit out of bounds; see CheckTimeout on zero.
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

// number writes d as seconds without needless digits.
func number(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", d.Seconds()), "0"), ".")
}

// check returns req with its defaults in place, or what is wrong with it.
func (l Limits) check(req Request) (Request, error) {
	if err := checkCode(req.Code); err != nil {
		return req, err
	}
	if err := checkVars(req.Vars); err != nil {
		return req, err
	}
	req.Timeout = or(req.Timeout, l.Timeout)
	if err := l.CheckTimeout(req.Timeout); err != nil {
		return req, err
	}
	if req.MemoryMB != 0 {
		if err := l.CheckMemory(req.MemoryMB); err != nil {
			return req, err
		}
	}
	if req.DryRun && req.SessionID != "" {
		return req, fault.New(fault.Invalid, "dry_run is of code by itself, and session_id is %.60q: variables of the session would stand for what was not done", req.SessionID).
			WithHint("leave session_id out")
	}
	if req.SessionID != "" {
		return req, session.CheckID(req.SessionID)
	}
	req.MemoryMB = or(req.MemoryMB, l.MemoryMB)
	return req, nil
}

func checkCode(code string) error {
	switch {
	case strings.TrimSpace(code) == "":
		return fault.New(fault.Invalid, "code is empty; pass the Python to run")
	case len(code) > MaxCodeBytes:
		return fault.New(fault.Invalid, "code has %d bytes; at most %d are allowed", len(code), MaxCodeBytes).
			WithHint("write data to a workspace file and read it from the code")
	case strings.IndexByte(code, 0) >= 0:
		return fault.New(fault.Invalid, "code has a NUL character at byte %d; Python source must not contain one", strings.IndexByte(code, 0))
	case !utf8.ValidString(code):
		return fault.New(fault.Invalid, "code is not valid UTF-8")
	}
	return nil
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

// excerpt shows the beginning of an argument.
func excerpt(v []byte) string {
	const most = 40
	if len(v) <= most {
		return strings.ToValidUTF8(string(v), "?")
	}
	return strings.ToValidUTF8(string(v[:most]), "") + "…"
}

// keywords of Python 3.14; its soft keywords may be variables.
var keywords = func() map[string]bool {
	m := make(map[string]bool)
	for _, k := range strings.Fields(`False None True and as assert async await break class continue def del elif else
		except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`) {
		m[k] = true
	}
	return m
}()

// checkName refuses a key of vars that cannot be a variable.
func checkName(name string) error {
	switch {
	case keywords[name]:
		return fault.New(fault.Invalid, "context_vars has the key %q, a Python keyword; use another name", name)
	case strings.HasPrefix(name, "__"):
		return fault.New(fault.Invalid, "context_vars has the key %.60q; names that begin with two underscores are Python's own", name)
	case !identifier(name):
		return fault.New(fault.Invalid, "context_vars has the key %.60q; a variable name is letters, digits and underscores and does not begin with a digit", name)
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
