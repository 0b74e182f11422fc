// Package sandbox defines the contract between Sandpiper and the isolated
// environments in which untrusted Python runs. A Backend opens Sandboxes, a
// Sandbox runs Programs and returns Outcomes, and a Host serves the calls that
// code inside makes.
//
// The behaviour of code is data, not an error: an exception, a time limit and a
// crash are Outcomes. A Go error from this package means that the sandbox could
// not be provided at all. Package sandboxtest tests the contract on every backend.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Backend opens sandboxes. It is safe for concurrent use.
type Backend interface {
	// Open returns a sandbox that is locked down and ready to run code, with all of
	// spec.Mounts in place. It fails, and releases everything, if any required
	// layer of isolation is not in force.
	Open(ctx context.Context, spec Spec) (Sandbox, error)
	// Close ends all sandboxes and releases all resources. It is idempotent
	// and bounded in time; Open fails after it.
	Close() error
}

// Prober is an optional ability of a backend: it tests which isolation layers
// are in force on this machine.
type Prober interface {
	Probe(ctx context.Context) Report
}

// Sandbox is one isolated interpreter. Running again on the same Sandbox
// continues the same interpreter: variables, imports and threads persist.
// Only one Run may be active; Close is safe for concurrent use.
type Sandbox interface {
	// Run executes p and blocks until it ends. If ctx ends first, the sandbox is
	// killed; the status is TimedOut if context.Cause(ctx) is ErrTimeout, else
	// Cancelled. After an outcome whose status is not Reusable the sandbox is dead,
	// and Run returns Crashed.
	Run(ctx context.Context, p Program, host Host) (Outcome, error)
	// Close destroys the sandbox. It is idempotent.
	Close() error
}

// Freezer is an optional ability of a sandbox: it stops the interpreter between
// two Runs. The caller of Run also calls Freeze and Thaw, never during a Run.
type Freezer interface {
	// Freeze stops all processes and threads inside until Thaw. It does nothing if
	// the sandbox is frozen. After an error some may still run, and the caller must
	// close the sandbox.
	Freeze() error
	// Thaw continues them. It does nothing if the sandbox is not frozen. An error
	// means that the interpreter has died or cannot be continued; the caller must
	// close the sandbox.
	Thaw() error
}

// Meter is an optional ability of a sandbox: it measures what runs inside. It is safe for concurrent use.
type Meter interface {
	// CPUTime returns the processor time that all processes inside have used so far, perhaps without some that have
	// ended.
	CPUTime() time.Duration
}

// Host serves the code inside a sandbox. All arguments come from hostile code.
type Host interface {
	// Call serves one call from the code. Calls run concurrently. The error's
	// fault.Message is raised inside as an exception, a *tool.Failure as a
	// ToolError; args and result are JSON.
	Call(ctx context.Context, method string, args []byte) ([]byte, error)
	// Output receives one item of output: the text of one print call, or one line
	// written to stdout by other means, without the trailing newline. Items arrive
	// in order, one at a time, while the code runs. An error ends the execution.
	Output(p []byte) error
}

// QuickCaller is an optional ability of a Host: it serves calls at once that need
// neither another process nor a person, nor a write to disk.
type QuickCaller interface {
	// CallNow serves such a call as Call does. For any other, and if it would have to
	// wait for calls in progress, it does nothing and returns served false.
	CallNow(ctx context.Context, method string, args []byte) (result []byte, served bool, err error)
}

// ReservingHost is an optional ability of a Host: a result takes memory that is limited until it
// is sent.
type ReservingHost interface {
	// CallReserved is like Call. The caller calls release once it no longer needs the result; release may
	// be called several times, and also after an error.
	CallReserved(ctx context.Context, method string, args []byte) (result []byte, release func(), err error)
}

// ClockRecorder is an optional ability of a Host: it receives the clock readings
// of code with a Seed, in nanoseconds since 1970, in the order read. Readings
// arrive before the Call that the code made after them. Readings replayed from
// Program.Clock are not repeated. Replayed and recorded readings together number
// at most MaxClockReadings; later ones are not recorded. The step is that of the Call,
// see StepOf.
type ClockRecorder interface {
	RecordClock(step int, readings []int64)
}

type stepKey struct{}

// WithStep returns the context of a Call that code makes in a step.
func WithStep(ctx context.Context, number int) context.Context {
	return context.WithValue(ctx, stepKey{}, number)
}

// StepOf returns the number, chosen by the Host, of the step in which code makes a Call; 0 for
// none. It comes from hostile code.
func StepOf(ctx context.Context) int {
	n, _ := ctx.Value(stepKey{}).(int)
	return n
}

// MaxClockReadings bounds the recorded clock readings of one execution.
const MaxClockReadings = 10_000

// ErrTimeout is the cancellation cause that makes an ended Run a TimedOut.
var ErrTimeout = errors.New("time limit reached")

// ErrEnded is returned by Freeze and Thaw if the interpreter has died.
var ErrEnded = errors.New("sandbox: the interpreter has died")

// ErrDamaged is returned by a backend whose interpreter or packages were deleted
// or changed while it ran. Only a new backend can open sandboxes.
var ErrDamaged = errors.New("the interpreter or its packages were deleted or changed on disk")

// Spec describes a sandbox to open. It is fixed at Open.
type Spec struct {
	// Owner isolates sandboxes from each other: two with different owners share
	// nothing writable and, if the host allows it, no host uid. Required.
	Owner string
	// UID is the host uid that owns the files of Owner; 0 means the uid of the
	// daemon. A backend that cannot change its uid rejects any other.
	UID int
	// Mounts are the directories that code sees; the one with target
	// "/workspace" is required.
	Mounts []Mount
	// Backend names the kind of sandbox, for a backend with several; "" means the default. Open fails
	// for a kind that the backend does not have.
	Backend string
	// PackageLayer names the packages that code may import, for a backend with several
	// layers; "" means the default. Open fails for a layer that the backend does not have.
	PackageLayer string
	// Limits that the kernel enforces; zero fields mean the backend's defaults.
	Limits Limits
}

// Mount makes a host directory visible inside. The directory is given by a root
// of the backend's configuration and one name below it, never by a path, so that
// no link planted by code can redirect it.
type Mount struct {
	Target   string // absolute path inside, e.g. "/workspace" or "/workspace/skills"
	Root     string // key of a root in the backend's configuration, e.g. "workspaces"
	Name     string // one path element below that root
	ReadOnly bool
}

// Limits of one sandbox. Zero means the backend's default. The time limit is
// absent: it is the caller's context, since its clock can pause.
type Limits struct {
	MemoryBytes    int64         // memory in use by all processes together, with files in /tmp and /dev/shm
	Processes      int           // processes and threads
	OpenFiles      int           // descriptors of each process
	FileBytes      int64         // size of one file
	CPU            time.Duration // CPU time of each process
	ResultBytes    int64         // JSON of the result
	WorkspaceDisk  int64         // bytes in the workspace, including deleted files that a process holds open; 0 means no limit
	WorkspaceFiles int64         // names in the workspace plus such deleted files; 0 means no limit
}

// Program is one piece of Python to run.
type Program struct {
	ID   string          // execution id, for messages; untrusted
	Code string          // Python 3.14 source
	Vars json.RawMessage // JSON object whose keys become globals; nil means none
	// Tokens maps tokens to values, both UTF-8. Each token is replaced in the string
	// and bytes constants of the code before any check or execution. Text that the
	// code compiles itself is not changed.
	Tokens map[string]string
	// NumberTokens are the keys of Tokens whose value is a JSON number: a string
	// that equals such a token becomes that number.
	NumberTokens []string
	// Privacy adds tokenize_pii and detokenize_pii to the globals. They are the
	// calls "tokenize" and "detokenize" of the Host.
	Privacy bool
	// Network is the module of a feature that adds a function to the globals and sends the requests of HTTP
	// libraries, as calls of tools: "call_tool" of the Host; "" means none.
	Network string
	// Restriction is the module of a feature that limits code to a part of Python; "" means none. Code that
	// it does not accept is Refused. It is a guardrail; isolation does not depend on it.
	Restriction string
	// DescribeTables returns the first rows of a table that is the result as Markdown, with the path
	// of the complete data in the workspace; otherwise its rows are the result.
	DescribeTables bool
	// MeasureCPU sets Usage.CPU of an Outcome whose process did not end, too.
	MeasureCPU bool
	// Seed makes an execution repeatable: random numbers derive from it, and clock
	// readings go to a Host that is a ClockRecorder. The same code with the same Seed
	// and Clock draws the same numbers and reads the same times. 32 secret bytes; nil
	// disables both.
	Seed []byte
	// Clock are the clock readings to replay first, in nanoseconds since 1970. The
	// real time follows, never before the last reading. At most MaxClockReadings;
	// requires Seed.
	Clock []int64
	// DryRun lets the Host answer "call_tool" with {"planned": N, "schema": …}. The
	// code then receives a placeholder for call N, and later calls list the
	// placeholders in their arguments under "references". Code that depends on the
	// value of a placeholder makes the call "plan_ends" and ends. File helpers and
	// save_skill change nothing outside the execution.
	DryRun bool
	// Preflight checks the tool calls in the code before it runs: the Host receives
	// them as the call "check", and findings make the status Refused.
	Preflight bool
}

// Status is the way in which a Run ended.
type Status string

const (
	Completed Status = "completed"  // ran to its end
	Raised    Status = "raised"     // an exception reached the top, or the code did not compile
	TimedOut  Status = "timed_out"  // killed at its time limit
	OverLimit Status = "over_limit" // ended by a limit, named by Outcome.Limit
	Crashed   Status = "crashed"    // the interpreter died or broke the protocol
	Cancelled Status = "cancelled"  // the caller's context ended
	Refused   Status = "refused"    // rejected by a check before it started
)

// Limit names, for Outcome.Limit.
const (
	LimitMemory    = "memory"
	LimitProcesses = "processes"
	LimitOpenFiles = "open_files"
	LimitFileSize  = "file_size"
	LimitCPU       = "cpu_time"
	LimitResult    = "result_size"
	LimitOutput    = "output"
	LimitDisk      = "disk"      // the workspace, or another place that code writes to
	LimitHostDisk  = "host_disk" // free space of the machine
)

// Reusable reports whether a sandbox can run again after a Run with this status.
func (s Status) Reusable() bool { return s == Completed || s == Raised || s == Refused }

// Outcome is the result of one Run. All of it comes from hostile code.
type Outcome struct {
	Status    Status
	Limit     string          // for OverLimit, and for Raised if a limit caused the exception: one of the Limit names
	Result    json.RawMessage // valid JSON; nil if the code produced no value
	Error     string          // one sentence, for every Status but Completed
	ErrorType string          // the exception's class name, or the status
	Traceback string          // without frames of the runtime
	Stderr    string          // the end of stderr
	Images    []Image
	Usage     Usage
}

// Image is a picture passed to show.
type Image struct {
	MIME string // image/png, image/jpeg, image/gif or image/webp; Data was checked to begin with its signature
	Data []byte
}

// Usage is the resource use of a Run; zero means unknown.
type Usage struct {
	Wall       time.Duration
	CPU        time.Duration
	MemoryPeak int64
}

// Report is the result of a Prober.
type Report struct {
	Backend string  `json:"backend"`
	Working bool    `json:"working"` // code may be executed
	Layers  []Layer `json:"layers"`
}

// Layer is one tested layer of isolation.
type Layer struct {
	Name     string `json:"name"`
	State    string `json:"state"`            // "enforced", "soft" (works, weaker), "missing" (optional), "failed" (required)
	Required bool   `json:"required"`         // execution is refused without it
	Detail   string `json:"detail,omitempty"` // the test and its result
	Remedy   string `json:"remedy,omitempty"` // action for the operator
}
