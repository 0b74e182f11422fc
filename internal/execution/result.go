package execution

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Result is what came of an execution. It is a plain value that survives JSON;
// everything in it stems from hostile code, and is bounded.
type Result struct {
	ExecutionID string         `json:"execution_id"`
	Status      sandbox.Status `json:"status"`
	Limit       string         `json:"limit,omitempty"` // which limit ended or hindered it: a Limit name of package sandbox

	Value   json.RawMessage `json:"value,omitempty"`   // JSON; the description of the value if it spilled; nil if there is none
	Spilled bool            `json:"spilled,omitempty"` // Value is a description

	Output     []string    `json:"output"`                // never nil
	OutputFile *OutputFile `json:"output_file,omitempty"` // where all of it is, if Output is only its beginning
	Images     []Image     `json:"images,omitempty"`
	ImageFiles []string    `json:"image_files,omitempty"` // images that were too many or large for a reply

	Error     string `json:"error,omitempty"`      // one sentence
	ErrorType string `json:"error_type,omitempty"` // see the package comment
	Source    Source `json:"source,omitempty"`     // of Error and ErrorType; "" means FromSandpiper
	Hint      string `json:"hint,omitempty"`       // what to do next
	Traceback string `json:"traceback,omitempty"`
	Stderr    string `json:"stderr,omitempty"`
	ErrorFile string `json:"error_file,omitempty"` // where all of error, traceback and stderr is, if some of it was cut

	Warnings       []string `json:"warnings,omitempty"` // what guardrails found, and let pass
	FlaggedServers []string `json:"marked,omitempty"`   // servers that said what reads like instructions to a model

	Plan       []PlannedCall `json:"plan,omitzero"`     // of a dry run; nil if it was none
	PlanID     string        `json:"plan_id,omitempty"` // by which it can be approved; "" if there is nothing to approve
	PlanEndsAt *PlanEnd      `json:"plan_ends_at,omitempty"`
	Applied    []AppliedCall `json:"carried,omitempty"` // of a plan that was approved: what became of its calls

	Session *Session `json:"session,omitempty"` // nil without one

	Elapsed time.Duration `json:"elapsed"` // while the code ran
	Usage   sandbox.Usage `json:"usage"`
}

// Session says what became of the session that an execution was a step of.
type Session struct {
	ID    string `json:"id"`
	State string `json:"state"`          // one of the constants below
	Note  string `json:"note,omitempty"` // what that means, and what to do, if variables are gone
}

// What an execution's interpreter was to its session.
const (
	SessionNew       = "new"       // the first there is
	SessionLive      = "living"    // that of the call before: variables are there
	SessionRestarted = "restarted" // a fresh one: variables of earlier calls are gone
	SessionEnded     = "ended"     // it ended with this call
)

// Image is a picture that the code showed.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// OutputFile says where the whole output is.
type OutputFile struct {
	Path  string `json:"path,omitempty"` // absent if it could not be kept
	Items int    `json:"items"`
	Bytes int64  `json:"bytes"`
	Note  string `json:"note"` // how to read it, or why it is not there
}

// Success reports whether the code ran to its end.
func (r Result) Success() bool { return r.Status == sandbox.Completed }

// Answer returns the body of execute_code's answer: a value that marshals to
// the keys that the tool promises. Images travel beside it.
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
	Result    json.RawMessage `json:"result,omitempty"` // of a plan: what its calls answered until it failed
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
