package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// The words of Result.ErrorType for ends that are no exception of the code. The
// ends by a limit bear the limit's name.
const (
	TypeTimeout    = "timeout"
	TypeCrashed    = "crashed"
	TypeCancelled  = "cancelled"
	TypeRefused    = "refused"
	TypeDivergence = "differs"
	TypeApproval   = "approval_required"
)

// Source says who wrote the error of an answer. Code chooses the name and the text
// of its exceptions, so that an answer with both alone could be forged; this key
// it cannot write.
type Source string

const (
	FromCode      Source = "code"      // the process that ran the code
	FromSandpiper Source = "sandpiper" // the daemon, whatever ran
)

// ownTypes are the error types that no exception of code has.
var ownTypes = []string{
	TypeTimeout, TypeCrashed, TypeCancelled, TypeRefused, TypeDivergence, TypeApproval, TypeGuardrail, TypePlan, "limit",
	sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitOpenFiles, sandbox.LimitFileSize, sandbox.LimitCPU,
	sandbox.LimitResult, sandbox.LimitOutput, sandbox.LimitDisk,
}

// codeType is the error type of an exception of the code.
func codeType(name string) string {
	if slices.Contains(ownTypes, name) {
		return "__main__." + name
	}
	return name
}

// Causes with which the runner itself cancels an execution.
var (
	errStopping = errors.New("sandpiper is stopping")
	errOutput   = errors.New("output limit reached")
)

// granted is what an execution was given, for messages about it.
type granted struct {
	timeout time.Duration
	most    time.Duration // that it may ask for
	limits  sandbox.Limits
	mostMB  int
	output  int64
}

// explain fills the result's Error, ErrorType, Limit and Hint from an outcome.
func (g granted) explain(r *Result, out sandbox.Outcome, cause error) {
	switch {
	case errors.Is(cause, errOutput):
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
		g.raised(r, out)
	case sandbox.TimedOut:
		r.ErrorType = TypeTimeout
		r.Error = fmt.Sprintf("Execution timed out after %s", seconds(g.timeout))
		r.Hint = g.later()
	case sandbox.OverLimit:
		r.ErrorType = cmp.Or(out.Limit, "limit")
		r.Error, r.Hint = g.limit(out)
	case sandbox.Cancelled:
		r.ErrorType, r.Error = TypeCancelled, "Execution was cancelled"
		if d, ok := errors.AsType[*journal.Divergence](cause); ok {
			r.ErrorType, r.Error, r.Hint = TypeDivergence, fault.Message(d), fault.Hint(d)
		}
		if errors.Is(cause, errStopping) {
			r.Error, r.Hint = "Execution was cancelled because Sandpiper is stopping", "run it again in a moment"
		}
	case sandbox.Refused:
		r.Source = FromCode // the check runs beside the code
		r.ErrorType = cmp.Or(codeType(out.ErrorType), TypeRefused)
		r.Error = cmp.Or(out.Error, "The code was refused before it ran")
	default:
		r.Status = sandbox.Crashed
		r.ErrorType = TypeCrashed
		r.Error = "The Python process died: " + cmp.Or(out.Error, "no reason is known")
		r.Hint = "files in /workspace are kept; change what calls into C (ctypes, deep recursion) or uses much memory, then run again"
	}
}

// raised explains an exception. One that a limit caused names the limit; that
// of the result's size is the worker's own and says all itself.
func (g granted) raised(r *Result, out sandbox.Outcome) {
	r.ErrorType = cmp.Or(codeType(out.ErrorType), "Exception")
	r.Error = cmp.Or(out.Error, r.ErrorType)
	if r.ErrorType == "ModuleNotFoundError" {
		r.Hint = missing(out.Error)
	}
	if out.Limit == "" && elsewhere.MatchString(out.Error) {
		r.Hint = toolsReach
	}
	if out.Limit == "" || out.Limit == sandbox.LimitResult && out.Error != "" {
		return
	}
	what, next := g.limit(out)
	r.Hint = what + "; " + next
	if out.Error == "" || out.ErrorType == "MemoryError" { // which says nothing, or only that
		r.Error, r.Hint = what, next
	}
}

var noModule = regexp.MustCompile(`^No module named '([A-Za-z_][A-Za-z0-9_]*)`)

// elsewhere finds what the worker says where there is no network and no program:
// see python/unavailable.py.
var elsewhere = regexp.MustCompile(`no network here: use a tool|programs other than Python cannot be started here`)

const toolsReach = "what is outside is reached through the tools of connected servers: search_tools finds them"

// reaching are packages that are of use with a network only.
var reaching = map[string]bool{"requests": true, "httpx": true, "aiohttp": true, "urllib3": true, "httplib2": true, "websockets": true, "websocket": true,
	"paramiko": true, "boto3": true, "botocore": true, "openai": true, "anthropic": true, "psycopg2": true, "psycopg": true, "pymysql": true, "redis": true, "pymongo": true}

// missing is the advice for a module that is not there, "" for one of our own.
func missing(message string) string {
	m := noModule.FindStringSubmatch(message)
	switch {
	case m == nil || m[1] == "skills":
		return ""
	case m[1] == "servers":
		return "no connected server has this module: search_tools says what there is; the operator can add servers to servers: in the configuration"
	case reaching[m[1]]:
		return "there is no network here, so it would be of no use; " + toolsReach
	}
	if strings.HasSuffix(message, "of the standard library that is not there") {
		return "do without it: this Python comes without it, and no package provides it"
	}
	return "do without it, or ask the operator to add it to sandbox.packages and run sandpiper packages lock and install; nothing can be installed from here"
}

// later is the advice after a timeout.
func (g granted) later() string {
	if g.timeout >= g.most {
		return fmt.Sprintf("%s is the most there is, unless the operator raises sandbox.max_timeout: do less in one call and keep intermediate results in /workspace", seconds(g.most))
	}
	return fmt.Sprintf("do less in one call, or set timeout_seconds up to %s", number(g.most))
}

// limit says which limit was hit, its value as far as it is known, and what to
// do about it.
func (g granted) limit(out sandbox.Outcome) (what, next string) {
	l := g.limits
	switch out.Limit {
	case sandbox.LimitMemory:
		what = "Memory limit" + amount(" of ", mb(l.MemoryBytes)) + " reached"
		if peak := out.Usage.MemoryPeak; peak > 0 {
			what += fmt.Sprintf(" (%s used)", mb(peak))
		}
		next = "process the data in pieces"
		if l.MemoryBytes < int64(g.mostMB)<<20 {
			next += fmt.Sprintf(", or set memory_mb up to %d", g.mostMB)
		}
	case sandbox.LimitProcesses:
		what, next = "Limit"+count(" of ", int64(l.Processes))+" on processes and threads reached", "start fewer at once"
	case sandbox.LimitOpenFiles:
		what, next = "Limit"+count(" of ", int64(l.OpenFiles))+" on open files reached", "close files after use, for example with a with block"
	case sandbox.LimitFileSize:
		what, next = "File size limit"+amount(" of ", mb(l.FileBytes))+" reached", "write several smaller files"
	case sandbox.LimitCPU:
		what, next = "CPU time limit"+count(" of ", int64(l.CPU.Seconds()))+" seconds reached", "do less in one call"
	case sandbox.LimitResult:
		what, next = "The result is larger than the limit"+amount(" of ", mb(l.ResultBytes)), "return a summary and write the rest to a file in /workspace"
	case sandbox.LimitOutput:
		what, next = "Output limit"+amount(" of ", mb(g.output))+" reached", "print less and write data to a file in /workspace"
	case sandbox.LimitDisk:
		what, next = "No space is left", "delete files that are no longer needed with delete_file"
	case sandbox.LimitHostDisk:
		what, next = "The disk of the machine is nearly full", "ask the operator to free disk space"
	default:
		what, next = "A limit was reached", "do less in one call"
	}
	return what, next
}

// mb writes a number of bytes for a reader, "" for none.
func mb(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 1<<20:
		return fmt.Sprintf("%d bytes", n)
	default:
		return fmt.Sprintf("%d MB", n>>20)
	}
}

// amount and count write a value behind a preposition, or nothing.
func amount(of, value string) string {
	if value == "" {
		return ""
	}
	return of + value
}

func count(of string, n int64) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(of, n)
}

// seconds writes d with its unit.
func seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return number(d) + " seconds"
}

// causeOf is why ctx ended, nil if it did not.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
