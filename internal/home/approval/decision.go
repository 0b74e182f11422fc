package approval

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Outcome is the kind of a request that asks what happened to a call. Occurrence is its number in the
// record of the execution. Its answer is an approval whose note is a Decision.
const Outcome Kind = "outcome"

// DecisionNote returns the note of the answer to a request of kind Outcome.
func DecisionNote(d tool.Decision) string {
	return strings.TrimSuffix(d.Outcome+" "+string(d.Answer), " ")
}

// Decision returns the answer to a request of kind Outcome; zero if it has none.
func (r Request) Decision() tool.Decision {
	if r.Kind != Outcome || r.State != Approved && r.State != Used {
		return tool.Decision{}
	}
	outcome, answer, _ := strings.Cut(r.Note, " ")
	d := tool.Decision{Outcome: outcome}
	if answer != "" {
		d.Answer = json.RawMessage(answer)
	}
	return d
}

// checkDecision returns an error for an answer that does not fit the kind of the request.
func (r Request) checkDecision(a Answer) error {
	outcome, answer, _ := strings.Cut(a.Note, " ")
	switch {
	case r.Kind != Outcome:
		return nil
	case !a.Approve || !slices.Contains([]string{tool.TookEffect, tool.NoEffect, tool.Stop}, outcome) ||
		answer != "" && !json.Valid([]byte(answer)):
		return fault.New(fault.Invalid, "request %s asks what happened to call %d, of %s: there is nothing to approve or deny", r.ID,
			r.Occurrence, r.Ref).
			WithHint("`sandpiper executions answer %s %d done` answers it if it took effect; other answers are not-done and stop",
				r.Execution, r.Occurrence)
	case len(a.Note) > maxNote:
		return fault.New(fault.Exhausted, "the answer of the call has %d bytes; at most %d are kept", len(answer), maxNote-len(outcome)-1)
	}
	return nil
}
