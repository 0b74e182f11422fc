package tools

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

type callArgs struct {
	Server     string           `json:"server"`
	Tool       string           `json:"tool"`
	Args       json.RawMessage  `json:"args"`
	References []tool.Reference `json:"references"`
}

// call calls a tool for the code. Every error is a ToolError that the code can catch.
func (h *Host) call(ctx context.Context, a callArgs) (any, error) {
	ref := tool.Ref{Server: a.Server, Tool: a.Tool}
	end := h.serial.begin(ref, h.Clock)
	res, err := h.caller.Call(ctx, tool.Call{
		Ref:        ref,
		Execution:  h.Execution,
		Session:    h.Session,
		Args:       a.Args,
		References: a.References,
		Progress:   h.progressOf(ctx, ref),
		Hold:       memory.FromContext(ctx).Answer,
		Store:      h.storeLarge(ref),
		Starting:   func() func() { return h.reportStarting(ctx, ref.Server) },
	})
	if slow := end(err); slow != "" {
		h.Warn(slow)
	}
	if err != nil {
		return nil, failure(ctx, ref, err)
	}
	if res.Planned > 0 {
		return planned{res.Planned, res.PlannedSchema}, nil
	}
	return answer(res), nil
}

// progressOf returns a function that reports the progress of a tool.
func (h *Host) progressOf(ctx context.Context, ref tool.Ref) func(done, total float64, message string) {
	return func(done, total float64, message string) {
		h.Report(ctx, max(0, done), max(0, total), cmp.Or(message, ref.String()))
	}
}

// planned is the answer of a planned call, which the worker converts into a
// placeholder.
type planned struct {
	Planned int             `json:"planned"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

// Answer is the answer of a call, which the worker converts into a Python value.
type Answer struct {
	Value      json.RawMessage `json:"value,omitempty"`
	Parts      []tool.Part     `json:"parts,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"`
	File       json.RawMessage `json:"file,omitempty"` // a largeAnswer
}

// Encode implements hostcall.Encoder. A value is not decoded: its source has validated it.
func (a Answer) Encode() ([]byte, error) {
	if a.Value == nil {
		return json.Marshal(a)
	}
	const before, after = `{"value":`, `}`
	b := make([]byte, 0, len(before)+len(a.Value)+len(after))
	return append(append(append(b, before...), a.Value...), after...), nil
}

func answer(res tool.Result) Answer {
	if res.File != nil {
		return Answer{File: res.File}
	}
	if v, ok := res.Value(); ok {
		return Answer{Value: v}
	}
	return Answer{Parts: res.Parts, Structured: res.Structured}
}
