package execution

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Result is the outcome of an execution. It is a plain value that survives JSON. All of
// it comes from untrusted code, and is bounded.
type Result struct {
	ExecutionID string         `json:"execution_id"`
	Status      sandbox.Status `json:"status"`
	Limit       string         `json:"limit,omitempty"` // the limit that ended or affected it: a Limit constant of package sandbox

	Value   json.RawMessage `json:"value,omitempty"`   // a description of the value if it spilled; nil without a value
	Spilled bool            `json:"spilled,omitempty"` // Value is a description

	Output     []string    `json:"output"`                // never nil
	OutputFile *OutputFile `json:"output_file,omitempty"` // the complete output, if Output is truncated
	Images     []Image     `json:"images,omitempty"`
	ImageFiles []string    `json:"image_files,omitempty"` // images that exceed the size of a reply

	Error     string `json:"error,omitempty"`      // one sentence
	ErrorType string `json:"error_type,omitempty"` // see the package comment
	Source    Source `json:"source,omitempty"`     // of Error and ErrorType; "" means FromSandpiper
	Hint      string `json:"hint,omitempty"`       // the remedy
	Traceback string `json:"traceback,omitempty"`
	Stderr    string `json:"stderr,omitempty"`
	ErrorFile string `json:"error_file,omitempty"` // the complete error, traceback and stderr, if one was truncated

	Warnings       []string `json:"warnings,omitempty"` // findings of guardrails that did not refuse the code
	FlaggedServers []string `json:"marked,omitempty"`   // servers whose texts look like prompt injection

	Plan       []PlannedCall `json:"plan,omitzero"`     // of a dry run; otherwise nil
	PlanID     string        `json:"plan_id,omitempty"` // for approving the plan; "" if it is empty
	PlanEndsAt *PlanEnd      `json:"plan_ends_at,omitempty"`
	Applied    []AppliedCall `json:"carried,omitempty"` // the calls of an approved plan

	Session *Session `json:"session,omitempty"` // nil without a session

	Elapsed time.Duration `json:"elapsed"` // running time of the code
	Usage   sandbox.Usage `json:"usage"`
}

// Session describes the session of which the execution was a step.
type Session struct {
	ID    string `json:"id"`
	State string `json:"state"`          // one of the constants below
	Note  string `json:"note,omitempty"` // explanation and remedy, if variables are lost
}

// Values of Session.State.
const (
	SessionNew       = "new"       // the session's first interpreter
	SessionLive      = "living"    // the interpreter of the previous call: variables are intact
	SessionRestarted = "restarted" // a fresh interpreter: variables of earlier calls are lost
	SessionEnded     = "ended"     // the interpreter ended with this call
)

// Image is a picture that the code showed.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// OutputFile locates the complete output.
type OutputFile struct {
	Path  string `json:"path,omitempty"` // absent if it could not be stored
	Items int    `json:"items"`
	Bytes int64  `json:"bytes"`
	Note  string `json:"note"` // how to read it, or why it is missing
}

// Success reports whether the code ran to its end.
func (r Result) Success() bool { return r.Status == sandbox.Completed }

// Answer returns the body of execute_code's answer, a value that marshals to the
// documented keys. Images are sent as separate content blocks.
func (r Result) Answer() any {
	tail := answerTail{
		Output: r.Output, OutputFile: r.OutputFile, ImageFiles: r.ImageFiles,
		Warnings: r.Warnings, TimeMS: r.Elapsed.Milliseconds(), ExecutionID: r.ExecutionID, Session: r.Session,
		Plan: r.Plan, PlanID: r.PlanID, PlanEndsAt: r.PlanEndsAt, Applied: r.Applied,
	}
	if tail.Output == nil {
		tail.Output = []string{}
	}
	if !r.Success() {
		return failure{
			Error: r.Error, ErrorType: r.ErrorType, Source: cmp.Or(r.Source, FromSandpiper), Traceback: r.Traceback, Hint: r.Hint,
			Result: r.Value, Limit: r.Limit, Stderr: r.Stderr, ErrorFile: r.ErrorFile, answerTail: tail,
		}
	}
	value := r.Value
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	return success{Success: true, Result: value, Spilled: r.Spilled, answerTail: tail}
}

type success struct {
	Success bool            `json:"success"`
	Result  json.RawMessage `json:"result"`
	Spilled bool            `json:"result_is_preview,omitempty"`
	answerTail
}

type failure struct {
	Success   bool            `json:"success"`
	Result    json.RawMessage `json:"result,omitempty"` // of a plan: the results of its calls until one failed
	Error     string          `json:"error"`
	ErrorType string          `json:"error_type"`
	Source    Source          `json:"error_source"`
	Hint      string          `json:"hint,omitempty"`
	Limit     string          `json:"limit,omitempty"`
	Traceback string          `json:"traceback"`
	Stderr    string          `json:"stderr,omitempty"`
	ErrorFile string          `json:"error_file,omitempty"`
	answerTail
}

type answerTail struct {
	Output      []string      `json:"output"`
	OutputFile  *OutputFile   `json:"output_file,omitempty"`
	ImageFiles  []string      `json:"image_files,omitempty"`
	Warnings    []string      `json:"warnings,omitempty"`
	TimeMS      int64         `json:"execution_time_ms"`
	ExecutionID string        `json:"execution_id"`
	Session     *Session      `json:"session,omitempty"`
	Plan        []PlannedCall `json:"plan,omitzero"`
	PlanID      string        `json:"plan_id,omitempty"`
	PlanEndsAt  *PlanEnd      `json:"plan_ends_at,omitempty"`
	Applied     []AppliedCall `json:"calls,omitempty"`
}
