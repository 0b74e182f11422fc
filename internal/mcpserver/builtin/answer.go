package builtin

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Answer returns the answer of a tool with the result of an execution.
func Answer(r reply.Result, commands fault.Commands) redact.Message {
	r.Hint, r.Error, r.Traceback = commands.Complete(r.Hint), commands.Complete(r.Error), commands.Complete(r.Traceback)
	if r.Session != nil {
		s := *r.Session
		s.Note = commands.Complete(s.Note)
		r.Session = &s
	}
	m := redact.Message{Body: r.Answer(), Failed: !r.Success(), Sources: strings.Join(r.FlaggedServers, " and ")}
	for _, img := range r.Images {
		m.Images = append(m.Images, redact.Image{MIME: img.MIME, Data: img.Data})
	}
	return m
}
