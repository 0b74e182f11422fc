// Package reply converts the outcome of an execution into a Result that fits into the
// answer of execute_code: it explains failures, limits sizes, and stores completely in
// the workspace what exceeds them.
//
// A Result is not yet redacted for a model.
package reply

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Result is the outcome of an execution. It is a plain value that survives JSON. All of
// it comes from untrusted code, and is bounded.
type Result struct {
	Status  sandbox.Status  `json:"status"`
	Value   json.RawMessage `json:"value,omitempty"`   // a description of the value if it spilled; nil without a value
	Spilled bool            `json:"spilled,omitempty"` // Value is a description

	Failure // of an execution that did not complete
	Details

	Images         []Image  `json:"images,omitempty"`
	FlaggedServers []string `json:"flagged_servers,omitempty"` // servers whose texts look like prompt injection

	// Unrepeated names the calls on record that the code did not make again, in the replay of a
	// session's step.
	Unrepeated []string `json:"unrepeated,omitempty"`

	// Unknown names the tools of calls that may have taken effect, although they had no answer.
	Unknown []string `json:"unknown,omitempty"`

	Elapsed time.Duration `json:"elapsed"` // running time of the code, without the time that a person took
	Usage   sandbox.Usage `json:"usage"`
}

// Failure describes why an execution did not complete. The JSON keys are those of
// execute_code's answer.
type Failure struct {
	Error     string `json:"error"`           // one sentence
	ErrorType string `json:"error_type"`      // see package execution
	Source    Source `json:"error_source"`    // of Error and ErrorType; "" means FromSandpiper
	Hint      string `json:"hint,omitempty"`  // the remedy
	Limit     string `json:"limit,omitempty"` // the limit that ended or affected it: a Limit constant of package sandbox
	Traceback string `json:"traceback"`
	ErrorFile string `json:"error_file,omitempty"` // the complete error, traceback and stderr, if one was truncated
}

// Details are the parts of a result that do not depend on success. The JSON keys are
// those of execute_code's answer.
type Details struct {
	Output      []string      `json:"output"`                // never nil in an answer
	Stderr      string        `json:"stderr,omitempty"`      // with warnings
	OutputFile  *OutputFile   `json:"output_file,omitempty"` // the complete output, if Output is truncated
	ImageFiles  []string      `json:"image_files,omitempty"` // images that exceed the size of a reply
	Warnings    []string      `json:"warnings,omitempty"`    // findings of guardrails that did not refuse the code, and what made it slow
	TimeMS      int64         `json:"execution_time_ms"`     // Elapsed; set by Answer
	ExecutionID string        `json:"execution_id"`
	Session     *Session      `json:"session,omitempty"` // nil without a session
	Plan        []PlannedCall `json:"plan,omitzero"`     // of a dry run; otherwise nil
	PlanID      string        `json:"plan_id,omitempty"` // for approving the plan; "" if it is empty
	PlanEndsAt  *PlanEnd      `json:"plan_ends_at,omitempty"`
	Applied     []AppliedCall `json:"calls,omitempty"` // the calls of an approved plan
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
	SessionLive      = "live"      // the interpreter of the previous call: variables are intact
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

// PlanEnd describes where a dry run needed the result of a call that was not made.
type PlanEnd struct {
	Call int    `json:"call"` // the last call of the plan
	Line int    `json:"line"` // line of the code that used the result
	Note string `json:"note"` // explanation
}

// PlannedCall is a call of a plan.
type PlannedCall struct {
	Call int `json:"call"` // its number, from 1
	tool.Ref
	Args       json.RawMessage  `json:"arguments"`
	References []tool.Reference `json:"references,omitempty"` // replace nulls in the arguments
}

// AppliedCall is the outcome of one call of a plan.
type AppliedCall struct {
	Call int `json:"call"`
	tool.Ref
	State string `json:"state"` // one of the constants below
	Error string `json:"error,omitempty"`
}

// Values of AppliedCall.State.
const (
	CallDone    = "done"
	CallFailed  = "failed"
	CallUnknown = "unknown"  // it was started, and no answer came
	CallNotMade = "not_made" // it was refused or not sent, or an earlier call was not done
)

// Success reports whether the code ran to its end.
func (r Result) Success() bool { return r.Status == sandbox.Completed }

// Answer returns the body of execute_code's answer, a value that marshals to the
// documented keys. Images are sent as separate content blocks.
func (r Result) Answer() any {
	if r.Output == nil {
		r.Output = []string{}
	}
	r.TimeMS = r.Elapsed.Milliseconds()
	if !r.Success() {
		r.Source = cmp.Or(r.Source, FromSandpiper)
		return struct {
			Success bool            `json:"success"`
			Result  json.RawMessage `json:"result,omitempty"` // of a plan: the results of its calls until one failed
			Failure
			Details
		}{false, r.Value, r.Failure, r.Details}
	}
	value := r.Value
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	return struct {
		Success bool            `json:"success"`
		Result  json.RawMessage `json:"result"`
		Spilled bool            `json:"result_is_preview,omitempty"`
		Details
	}{true, value, r.Spilled, r.Details}
}

// LogText returns the result as the session's log contains it: the value's JSON, or
// "error: " and the error.
func (r Result) LogText() string {
	switch {
	case r.Success() && len(r.Value) == 0:
		return "null"
	case r.Success():
		return string(r.Value)
	case r.Status == sandbox.Raised || r.Status == sandbox.Refused:
		return "error: " + r.ErrorType + ": " + r.Error
	}
	return "error: " + r.Error
}

// LogOutput returns the output as the session's log contains it.
func (r Result) LogOutput() string {
	all := strings.Join(r.Output, "\n")
	if r.OutputFile != nil {
		all += "\n… (" + r.OutputFile.Note + ")"
	}
	return all
}
