package mcpserver

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// failure is the answer of a tool that failed.
type failure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
	*quotaState
}

// quotaState is the state of a quota that is used up. Its keys are none of an execution's answer,
// whose "limit" is the name of a limit.
type quotaState struct {
	Quota   quota.Name `json:"quota"`
	Allowed int64      `json:"allowed"`
	Used    int64      `json:"used"`
	Retry   int64      `json:"retry_after_seconds"`
}

// failed converts err to an answer for the model. Internal errors are logged with their
// causes.
func (s *Server) failed(tool string, err error) redact.Message {
	s.complain(tool, err)
	f := failure{Error: fault.Sentence(err)}
	if over, ok := errors.AsType[*quota.Exceeded](err); ok {
		f.quotaState = &quotaState{over.Name, over.Limit, over.Used, quota.RetrySeconds(over.Status.Retry)}
	}
	return redact.Message{Body: f, Failed: true}
}

func (s *Server) complain(tool string, err error) {
	if fault.KindOf(err) == fault.Internal && !errors.Is(err, context.Canceled) {
		s.cfg.Log.Error("tool failed", "tool", tool, "error", err)
	}
}
