package mcpserver

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/plan"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
)

// suspended is the answer of a suspended execution.
type suspended struct {
	Success     bool                `json:"success"`
	ErrorType   string              `json:"error_type"`
	Source      reply.Source        `json:"error_source"`
	Error       string              `json:"error"`
	ExecutionID string              `json:"execution_id"`
	Questions   []question.Question `json:"questions"`
}

// waiting returns the answer of an execution that waits. pages is the beginning of the links of
// approvals, "" if there is no page.
func waiting(id string, open []question.Question, via approval.Via, pages string) suspended {
	p := suspended{ErrorType: reply.TypeApproval, Source: reply.FromSandpiper, ExecutionID: id, Questions: forModel(open)}
	asked, approvals := split(open)
	if len(asked) > 0 {
		p.Error = "the code waits for an answer from the person, and this client did not show them the question, or they dismissed it: " +
			"ask them in your own words, then call resume_execution with their answer: {question id: answer} for several, {\"action\": " +
			"\"decline\"} if they decline"
	}
	for _, q := range asked {
		if q.Request != "" && pages != "" && via != approval.ViaClient {
			p.Error += "; they can also answer " + q.ID + " at " + pages + q.Request +
				", after which you call resume_execution without an answer"
		}
	}
	if len(approvals) > 0 {
		also := ""
		if p.Error != "" {
			p.Error, also = p.Error+"; ", "also "
		}
		waits := "the code " + also + "waits for the person to approve a call"
		if plan.IsID(id) {
			waits = "the plan waits for the person to approve it"
		}
		p.Error += waits + ", which you cannot do for them: tell them what it would do, and to " + via.Approve(approvals...) +
			", then call resume_execution without an answer"
	}
	return p
}

// split separates questions, whose answer the caller may pass on, from approvals, which
// only the person answers; it returns the ids of the approvals.
func split(open []question.Question) (asked []question.Question, approvals []string) {
	for _, q := range open {
		if q.Approval != "" {
			approvals = append(approvals, q.Approval)
		} else {
			asked = append(asked, q)
		}
	}
	return asked, approvals
}

// forModel returns questions as a model reads them: it fills in no form of an approval.
func forModel(open []question.Question) []question.Question {
	open = slices.Clone(open)
	for i, q := range open {
		if q.Approval != "" {
			open[i].Schema = nil
		}
	}
	return open
}
