package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// answerTo parses the answer of resume_execution: a value for one question, or an object
// of values by question id.
func answerTo(open []question.Question, raw json.RawMessage, via approval.Via) (question.Answer, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	open, err := answerable(open, raw, via)
	if err != nil {
		return nil, err
	}
	a := question.Answer{}
	var declined struct{ Action tool.Action }
	if json.Unmarshal(raw, &declined) == nil && (declined.Action == tool.Decline || declined.Action == tool.Cancel) {
		for _, q := range open {
			a[q.ID] = tool.Reply{Action: declined.Action}
		}
		return a, nil
	}
	var byID map[string]json.RawMessage
	if json.Unmarshal(raw, &byID) != nil || !names(open, byID) {
		if len(open) != 1 {
			return nil, fault.New(fault.Invalid, "%d questions are open; give the answers as an object by question id", len(open))
		}
		byID = map[string]json.RawMessage{open[0].ID: raw}
	}
	for _, q := range open {
		if v, given := byID[q.ID]; given {
			a[q.ID] = tool.Reply{Action: tool.Accept, Content: q.Fill(v)}
		}
	}
	return a, nil
}

// answerable returns the open questions without approvals. It rejects an answer to an
// approval, because prompt injection could cause it.
func answerable(open []question.Question, raw json.RawMessage, via approval.Via) ([]question.Question, error) {
	asked, approvals := split(open)
	if len(approvals) == 0 {
		return asked, nil
	}
	var byID map[string]json.RawMessage
	_ = json.Unmarshal(raw, &byID) // not an object: no ids
	named := slices.ContainsFunc(open, func(q question.Question) bool {
		return q.Approval != "" && (byID[q.ID] != nil || byID[q.Approval] != nil)
	})
	if len(asked) > 0 && !named {
		return asked, nil
	}
	return nil, fault.New(fault.Denied, "resume_execution cannot answer an approval; only the person can").
		WithHint("ask them to %s, then call resume_execution without an answer", via.Approve(approvals...))
}

// names reports whether all keys of an object are ids of questions.
func names(open []question.Question, byID map[string]json.RawMessage) bool {
	known := 0
	for _, q := range open {
		if _, ok := byID[q.ID]; ok {
			known++
		}
	}
	return known > 0 && known == len(byID)
}

// answerWaiting passes a person's answers to the open questions of an execution on that another process runs, or none.
func answerWaiting(ctx context.Context, h *home.Home, id string, open []question.Question, given question.Answer) error {
	rest := maps.Clone(given)
	for _, q := range open {
		reply, ok := given[q.ID]
		if !ok || q.Approval == "" {
			continue
		}
		delete(rest, q.ID)
		if _, err := h.Approvals.Answer(ctx, q.Approval, approval.ParseReply(reply)); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return live.Answer(ctx, h.Runs, id, rest)
}
