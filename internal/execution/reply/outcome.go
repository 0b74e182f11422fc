package reply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Values of Result.ErrorType that are not exceptions of the code. An execution that
// reached a limit has the limit's name.
const (
	TypeTimeout    = "timeout"
	TypeCrashed    = "crashed"
	TypeCancelled  = "cancelled"
	TypeRefused    = "refused"
	TypeDivergence = "differs"
	TypeUndecided  = "undecided" // no decision was made about a call whose outcome is unknown
	TypeApproval   = "approval_required"
	TypeGuardrail  = "guardrail" // a guardrail or a hook refused the code or its result
	TypePlan       = "PlanError" // a plan was not applied completely
)

// Source identifies the origin of the error of an answer. Code chooses the name and the
// text of its exceptions and could imitate Sandpiper's errors; it cannot set Source.
type Source string

const (
	FromCode      Source = "code"      // the process that ran the code
	FromSandpiper Source = "sandpiper" // the daemon
)

// FromTool is the Source of an error of a call, which the code has not caught: "tool: SERVER.TOOL", or
// "server: SERVER" for a request other than a tool call.
func FromTool(ref tool.Ref) Source {
	if ref.Tool == "" {
		return Source("server: " + ref.Server)
	}
	return Source("tool: " + ref.String())
}

// reservedTypes are the error types that exceptions of the code cannot have.
var reservedTypes = []string{
	TypeTimeout, TypeCrashed, TypeCancelled, TypeRefused, TypeDivergence, TypeUndecided, TypeApproval, TypeGuardrail, TypePlan, "limit",
	sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitOpenFiles, sandbox.LimitFileSize, sandbox.LimitCPU,
	sandbox.LimitResult, sandbox.LimitOutput, sandbox.LimitDisk,
}

// exceptionType returns the error type of an exception of the code.
func exceptionType(name string) string {
	if slices.Contains(reservedTypes, name) {
		return "__main__." + name
	}
	return name
}

// Causes with which an execution is cancelled.
var (
	ErrStopping  = errors.New("sandpiper is stopping")
	ErrSuspended = fmt.Errorf("%w the executions of a suspended tenant", ErrStopping)
	ErrOutput    = errors.New("output limit reached")
)

// Limits are the limits of an execution, for messages.
type Limits struct {
	Timeout     time.Duration
	MaxTimeout  time.Duration // largest timeout that a request can set
	Sandbox     sandbox.Limits
	MaxMemoryMB int // largest memory that a request can set
	OutputBytes int64
	Network     bool                      // code may send HTTP requests
	Disabled    func(server string) error // returns an error for a disabled server; nil means none is
}

// Explain fills the result's Error, ErrorType, Limit and Hint from an outcome.
func (g Limits) Explain(r *Result, out sandbox.Outcome, cause error) {
	switch {
	case errors.Is(cause, ErrOutput):
		out = sandbox.Outcome{Status: sandbox.OverLimit, Limit: sandbox.LimitOutput}
	case out.Status == sandbox.Cancelled && errors.Is(cause, sandbox.ErrTimeout):
		out.Status = sandbox.TimedOut
	}
	r.Status, r.Limit = out.Status, out.Limit
	switch out.Status {
	case sandbox.Completed:
		r.Limit = ""
	case sandbox.Raised:
		r.Source = FromCode
		g.explainException(r, out)
	case sandbox.TimedOut:
		r.ErrorType = TypeTimeout
		r.Error = fmt.Sprintf("Execution timed out after %s", Seconds(g.Timeout))
		r.Hint = g.timeoutHint()
	case sandbox.OverLimit:
		r.ErrorType = cmp.Or(out.Limit, "limit")
		r.Error, r.Hint = g.describeLimit(out)
	case sandbox.Cancelled:
		r.ErrorType, r.Error = TypeCancelled, "Execution was cancelled"
		if d, ok := errors.AsType[*journal.Divergence](cause); ok {
			r.ErrorType, r.Error, r.Hint = TypeDivergence, fault.Message(d), fault.Hint(d)
		}
		if u, ok := errors.AsType[*journal.Undecided](cause); ok {
			r.ErrorType, r.Error, r.Hint = TypeUndecided, fault.Message(u), fault.Hint(u)
		}
		if errors.Is(cause, ErrSuspended) {
			r.Error, r.Hint = "Execution was cancelled because the tenant was suspended", "ask the operator of this server"
		} else if errors.Is(cause, ErrStopping) {
			r.Error, r.Hint = "Execution was cancelled because Sandpiper is stopping", "run it again in a moment"
		}
	case sandbox.Refused:
		r.Source = FromCode // the check runs in the same process as the code
		r.ErrorType = cmp.Or(exceptionType(out.ErrorType), TypeRefused)
		r.Error = cmp.Or(out.Error, "The code was refused before it ran")
	default:
		r.Status = sandbox.Crashed
		r.ErrorType = TypeCrashed
		r.Error = "The Python process died: " + cmp.Or(out.Error, "the reason is unknown")
		r.Hint = "files in /workspace are intact; run it again, and if it dies again, change what calls into C (ctypes, deep recursion) " +
			"or uses much memory"
	}
}

// explainException explains an exception. If a limit caused it, the limit is named,
// except for the result's size: the worker's message is complete in that case.
func (g Limits) explainException(r *Result, out sandbox.Outcome) {
	r.ErrorType = cmp.Or(exceptionType(out.ErrorType), "Exception")
	r.Error = cmp.Or(out.Error, r.ErrorType)
	if r.ErrorType == "ModuleNotFoundError" || r.ErrorType == "ImportError" {
		r.Hint = g.missingModuleHint(out.Error)
	}
	if hint := refusalHint(out); out.Limit == "" && hint != "" {
		r.Hint = hint
	}
	if out.Limit == "" || out.Limit == sandbox.LimitResult && out.Error != "" {
		return
	}
	what, next := g.describeLimit(out)
	r.Hint = what + "; " + next
	if out.Error == "" || out.ErrorType == "MemoryError" { // the message contains no more than that
		r.Error, r.Hint = what, next
	}
}

// timeoutHint returns the hint after a timeout.
func (g Limits) timeoutHint() string {
	if g.Timeout >= g.MaxTimeout {
		return fmt.Sprintf("%s is the maximum, unless the operator raises sandbox.max_timeout: do less in one call and keep intermediate "+
			"results in /workspace", Seconds(g.MaxTimeout))
	}
	return fmt.Sprintf("do less in one call, or set timeout_seconds up to %s", FormatSeconds(g.MaxTimeout))
}

// describeLimit describes the limit that was reached, with its value if known, and the
// remedy.
func (g Limits) describeLimit(out sandbox.Outcome) (what, next string) {
	l := g.Sandbox
	switch out.Limit {
	case sandbox.LimitMemory:
		what = "Memory limit" + withAmount(" of ", formatBytes(l.MemoryBytes)) + " reached"
		if peak := out.Usage.MemoryPeak; peak > 0 {
			used := "used"
			if out.Status == sandbox.Raised { // the allocation that failed is not included
				used = "were in use when more was asked for"
			}
			what += fmt.Sprintf(" (%s %s)", formatBytes(peak), used)
		}
		next = "process the data in pieces (read_csv with chunksize, or duckdb, which need not load a file), or " + g.moreMemory()
	case sandbox.LimitProcesses:
		what, next = "Limit"+withCount(" of ", int64(l.Processes))+" on processes and threads reached", "start fewer at once"
	case sandbox.LimitOpenFiles:
		what, next = "Limit"+withCount(" of ", int64(l.OpenFiles))+" on open files reached",
			"close files after use, for example with a with block"
	case sandbox.LimitFileSize:
		what, next = "File size limit"+withAmount(" of ", formatBytes(l.FileBytes))+" reached", "write several smaller files"
	case sandbox.LimitCPU:
		what, next = "CPU time limit"+withCount(" of ", int64(l.CPU.Seconds()))+" seconds reached", "do less in one call"
	case sandbox.LimitResult:
		what, next = "The result is larger than the limit"+withAmount(" of ", formatBytes(l.ResultBytes)),
			"return a summary and write the rest to a file in /workspace"
	case sandbox.LimitOutput:
		what, next = "Output limit"+withAmount(" of ", formatBytes(g.OutputBytes))+" reached",
			"print less and write data to a file in /workspace"
	case sandbox.LimitDisk:
		what, next = "No space is left", "delete files that are no longer needed with delete_file"
	case sandbox.LimitHostDisk:
		what, next = "The disk of the machine is nearly full", "ask the operator to free disk space"
	default:
		what, next = "A limit was reached", "do less in one call"
	}
	return what, next
}

// moreMemory returns how to raise the memory limit.
func (g Limits) moreMemory() string {
	if g.Sandbox.MemoryBytes < int64(g.MaxMemoryMB)<<20 {
		return fmt.Sprintf("set memory_mb up to %d, whose default is the operator's sandbox.memory_mb", g.MaxMemoryMB)
	}
	return "ask the operator to raise sandbox.max_memory_mb"
}

// formatBytes formats a number of bytes; "" for 0.
func formatBytes(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1<<20:
		return fmt.Sprintf("%d bytes", n)
	default:
		return fmt.Sprintf("%d MB", n>>20)
	}
}

// withAmount and withCount append a value to a preposition; "" without a value.
func withAmount(of, value string) string {
	if value == "" {
		return ""
	}
	return of + value
}

func withCount(of string, n int64) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(of, n)
}

// Seconds formats d in seconds with the unit.
func Seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return FormatSeconds(d) + " seconds"
}

// FormatSeconds formats d in seconds without trailing zeros.
func FormatSeconds(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", d.Seconds()), "0"), ".")
}
