// Package sandbox is the contract between Sandpiper and the isolated places in
// which untrusted Python runs. A Backend makes Sandboxes; a Sandbox runs
// Programs and answers with Outcomes; a Host is what code inside may reach.
//
// What code does is data, not an error: an exception, a time limit, a crash are
// an Outcome. A Go error from this package means that we failed to provide the
// sandbox at all. The contract is tested by package sandboxtest on every
// backend.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Backend makes sandboxes. It is safe for concurrent use.
type Backend interface {
	// Open returns a sandbox that is sealed and ready to run code, with all of
	// spec.Mounts in place. It fails, and leaves nothing behind, if any promised
	// layer of isolation is not in force.
	Open(ctx context.Context, spec Spec) (Sandbox, error)
	// Close ends all sandboxes and everything made for them. It is idempotent
	// and bounded in time; Open fails after it.
	Close() error
}

// Prober is the ability of a backend to say, by trying, what isolation is in
// force on this machine.
type Prober interface {
	Probe(ctx context.Context) Report
}

// Sandbox is one isolated interpreter. Running again on the same Sandbox
// continues the same interpreter: variables, imports and threads persist.
// One Run at a time; Close may be called at any time from anywhere.
type Sandbox interface {
	// Run executes p and blocks until it ended. If ctx ends first the sandbox is
	// killed and the outcome says why: TimedOut if context.Cause(ctx) is
	// ErrTimeout, else Cancelled. After an outcome whose status does not say that
	// it Lives the sandbox is dead, and Run answers Crashed.
	Run(ctx context.Context, p Program, host Host) (Outcome, error)
	// Close destroys the sandbox. It is idempotent.
	Close() error
}

// Freezer is the ability of a sandbox to stand still between two Runs. Whoever
// runs it freezes and thaws it too, never during a Run.
type Freezer interface {
	// Freeze stops all processes and threads inside: nothing there runs until
	// Thaw. It does nothing if they stand still. After an error something may
	// still run, and the sandbox is to be closed.
	Freeze() error
	// Thaw lets them go on. It does nothing if they do. An error says that the
	// interpreter has died, or that it cannot be woken: the sandbox is to be
	// closed.
	Thaw() error
}

// Host serves the code inside a sandbox. All arguments come from hostile code.
type Host interface {
	// Call answers one call from the code. Calls run concurrently. The error's
	// fault.Message is raised inside as an exception, a *tool.Failure as a
	// ToolError; args and result are JSON.
	Call(ctx context.Context, method string, args []byte) ([]byte, error)
	// Output receives one item of output: what one print call wrote, or one line
	// written otherwise to stdout, without the trailing newline. Items arrive in
	// order, one at a time, while the code runs. An error ends the execution.
	Output(p []byte) error
}

// Clocked is the ability of a Host to take what code with a Seed read of the
// clock, in nanoseconds since 1970, in the order read. Readings come before the
// Call that the code made after them, and those that Program.Clock gave do not
// come again. All of them, given and taken, are at most MostReadings: what the
// code reads beyond that nobody is told.
type Clocked interface {
	Clock(readings []int64)
}

// MostReadings is how many readings of the clock an execution may have on record.
const MostReadings = 10_000

// ErrTimeout is the cancellation cause that makes an ended Run a TimedOut.
var ErrTimeout = errors.New("time limit reached")

// ErrDamaged is the error of a backend whose interpreter or packages were deleted
// or changed while it ran. Only another backend can open sandboxes.
var ErrDamaged = errors.New("the interpreter or its packages were deleted or changed on disk")

// Spec describes a sandbox to open. Everything in it is fixed when it opens.
type Spec struct {
	// Owner keeps sandboxes apart: two with different owners share no writable
	// thing and, where the host allows, no host uid. Required.
	Owner string
	// UID is the host uid that owns the files of Owner; 0 means the uid of the
	// daemon. A backend without the right to change uid refuses any other.
	UID int
	// Mounts are the directories that code sees; the one with target
	// "/workspace" is required.
	Mounts []Mount
	// Limits that the kernel enforces; zero fields take the backend's defaults.
	Limits Limits
}

// Mount shows a host directory inside. The directory is named by a root that
// the backend was configured with and one name beneath it, never by a path, so
// that nothing that code planted can lead elsewhere.
type Mount struct {
	Target   string // absolute path inside, e.g. "/workspace" or "/workspace/skills"
	Root     string // key of a root in the backend's configuration, e.g. "workspaces"
	Name     string // one path element beneath that root
	ReadOnly bool
}

// Limits of one sandbox. Zero means the backend's default. The time limit is
// not here: it is the caller's context, since its clock can pause.
type Limits struct {
	MemoryBytes    int64         // address space of each process and memory of all together
	Processes      int           // processes and threads
	OpenFiles      int           // descriptors of each process
	FileBytes      int64         // size of one file
	CPU            time.Duration // CPU time of each process
	ResultBytes    int64         // JSON of the result
	WorkspaceDisk  int64         // bytes that the workspace may grow to, deleted files that are still held included; 0 means no limit
	WorkspaceFiles int64         // names in the workspace, and such deleted files; 0 means no limit
}

// Program is one piece of Python to run.
type Program struct {
	ID   string          // execution id, for messages; not trusted by anybody
	Code string          // Python 3.14 source
	Vars json.RawMessage // JSON object whose keys become globals; nil means none
	// Tokens are texts and what they stand for, both UTF-8: each is replaced in the
	// constants of the code, strings and bytes, before anything looks at it. Text
	// that the code compiles itself is not looked through.
	Tokens map[string]string
	// Numbers are those of Tokens that stand for a JSON number: a string that is
	// nothing else becomes that number.
	Numbers []string
	// Privacy makes tokenize_pii and detokenize_pii ready; they are the calls
	// "tokenize" and "detokenize" of the Host.
	Privacy bool
	// Restricted code passes the check of docs/restricted.md before it runs, or is
	// Refused. It is a guardrail; what isolates the code does not depend on it.
	Restricted bool
	// Seed makes what is random in the code follow from it, and what the code reads
	// of the clock known to a Host that is Clocked: the same code with the same Seed
	// and Clock draws and reads the same again. 32 secret bytes; nil means that
	// neither is so.
	Seed []byte
	// Clock is what the code reads of the clock first, in nanoseconds since 1970;
	// then the real time goes on, never before the last of them. At most
	// MostReadings; only with a Seed.
	Clock []int64
	// Dry code may be answered "call_tool" with {"planned": N, "schema": …}: then it
	// gets a placeholder of that number, and later calls name what they were given
	// of it in "references". Code that has to know what is behind one calls
	// "plan_ends" and ends. Files that its helpers write, and skills that it saves,
	// it keeps to itself.
	Dry bool
	// Checked code is looked at before it runs: what it says of tools goes to the
	// Host as the call "check", and if that finds anything it is Refused.
	Checked bool
}

// Status says how a Run ended.
type Status string

const (
	Completed Status = "completed"  // ran to its end
	Raised    Status = "raised"     // an exception reached the top, or the code did not compile
	TimedOut  Status = "timed_out"  // killed at its time limit
	OverLimit Status = "over_limit" // ended by a limit; Outcome.Limit says which
	Crashed   Status = "crashed"    // the interpreter died or broke the protocol
	Cancelled Status = "cancelled"  // nobody wanted the result any more
	Refused   Status = "refused"    // never started, by a check before running
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

// Lives reports whether a sandbox whose Run ended so can run again.
func (s Status) Lives() bool { return s == Completed || s == Raised || s == Refused }

// Outcome is what came of one Run. All of it stems from hostile code.
type Outcome struct {
	Status    Status
	Limit     string          // for OverLimit, and for Raised where a limit caused it: one of the Limit names
	Result    json.RawMessage // valid JSON; nil if the code produced no value
	Error     string          // one sentence for Status other than Completed
	ErrorType string          // the exception's class name, or the status
	Traceback string          // user's lines only
	Stderr    string          // the end of what was written to stderr
	Images    []Image
	Usage     Usage
}

// Image is a picture that the code showed.
type Image struct {
	MIME string // image/png, image/jpeg, image/gif or image/webp; the bytes were checked to begin like it
	Data []byte
}

// Usage is what a Run consumed, as far as the backend can tell; zero is unknown.
type Usage struct {
	Wall       time.Duration
	CPU        time.Duration
	MemoryPeak int64
}

// Report is what a Prober found.
type Report struct {
	Backend string  `json:"backend"`
	Working bool    `json:"working"` // code may be executed
	Layers  []Layer `json:"layers"`
}

// Layer is one layer of isolation, tried for real.
type Layer struct {
	Name     string `json:"name"`
	State    string `json:"state"`            // "enforced", "soft" (works, weaker), "missing" (optional), "failed" (required)
	Required bool   `json:"required"`         // execution is refused without it
	Detail   string `json:"detail,omitempty"` // what was tried and what came of it
	Remedy   string `json:"remedy,omitempty"` // what the operator can do about it
}
