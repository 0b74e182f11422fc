package passthrough

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

// tools are those of one snapshot.
type tools struct {
	of    *catalog.Snapshot
	lines []line
	names names
	hash  [sha256.Size]byte // of what is listed
}

// ToolPage is one page of the list of tools.
type ToolPage struct {
	Tools []json.RawMessage `json:"tools"`
	Next  string            `json:"nextCursor,omitempty"`
}

// Tools lists the tools that can be called; the cursor is "" or the Next of the
// page before.
func (f *Face) Tools(ctx context.Context, cursor string) (p ToolPage, err error) {
	if cursor == "" {
		f.await(ctx)
	}
	p.Tools, p.Next, err = page(f.tools().lines, cursor)
	return p, err
}

// tools are those that there are now.
func (f *Face) tools() *tools {
	now := f.cfg.Catalog.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil || f.seen.of != now {
		before := f.seen
		f.seen = newTools(now)
		if before != nil && before.hash != f.seen.hash {
			f.changes++
		}
	}
	return f.seen
}

func newTools(now *catalog.Snapshot) *tools {
	t := &tools{of: now}
	var all []tool.Ref
	for _, d := range now.Tools {
		if d.Connected { // those that are held too: to accept one renames none
			all = append(all, d.Ref)
		}
	}
	t.names = newNames(all, plain)
	for _, d := range now.Tools {
		if d.Connected && d.Quarantined == nil {
			t.lines = append(t.lines, newLine(d.Server, d.Tool, describe(t.names.shown[d.Ref], d.Definition)))
		}
	}
	t.lines = sorted(t.lines)
	h := sha256.New()
	for _, l := range t.lines {
		h.Write(l.json)
	}
	h.Sum(t.hash[:0])
	return t
}

// described is a tool as the protocol writes it.
type described struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Hints       tool.Hints      `json:"annotations,omitzero"`
}

func describe(name string, d tool.Definition) described {
	t := described{Name: name, Title: d.Title, Description: d.Description, Input: d.Input, Hints: d.Hints}
	switch kind, typed := typeOf(d.Input); {
	case kind == "object":
	case typed || !strings.HasPrefix(string(d.Input), "{") || string(d.Input) == "{}":
		t.Input = json.RawMessage(`{"type":"object"}`)
	default:
		t.Input = json.RawMessage(`{"type":"object",` + string(d.Input[1:]))
	}
	// Clients give the whole list up for one schema that is not of an object.
	if kind, _ := typeOf(d.Output); kind == "object" {
		t.Output = d.Output
	}
	return t
}

// typeOf is what a schema says of the type, and whether it says anything.
func typeOf(schema json.RawMessage) (kind string, typed bool) {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	_ = json.Unmarshal(schema, &s) // a boolean says nothing
	_ = json.Unmarshal(s.Type, &kind)
	return kind, s.Type != nil
}

// Call is one of a tool by the name that it is shown by.
type Call struct {
	Name     string
	Args     json.RawMessage // nil means none
	Progress func(done, total float64, message string)
	Ask      func(context.Context, Question) (Reply, error) // as that of a tool.Call
	Approve  func(context.Context, Approval) (Reply, error) // likewise
}

// What a server asks during a call, and what comes of it.
type (
	Question = tool.Question
	Reply    = tool.Reply
	Approval = tool.Approval
	Action   = tool.Action
)

// Answer is what a tool answered, as the protocol writes it.
type Answer struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent,omitempty"`
	Failed     bool              `json:"isError,omitempty"`
	Meta       json.RawMessage   `json:"_meta,omitempty"`
	From       string            `json:"-"` // the server
}

// ErrNoTool is in an error of Call that called nothing: there is no such tool.
var ErrNoTool = errors.New("no such tool")

// Call calls a tool for a tenant. What a tool answered as its own error is an
// Answer; an error says why there is none.
func (f *Face) Call(ctx context.Context, home *home.Home, exit *redact.Exit, c Call) (Answer, error) {
	ref, err := f.find(ctx, c.Name)
	if err != nil {
		return Answer{}, err
	}
	res, err := f.cfg.Calls.For(toolcall.Owner{Home: home, Exit: exit}).Call(ctx, tool.Call{Ref: ref, Args: c.Args, Progress: c.Progress, Ask: c.Ask, Approve: c.Approve})
	failed, own := errors.AsType[*tool.Failure](err)
	switch {
	case own && failed.Answer.Parts == nil:
		a := Failure(failed.Message)
		a.From = ref.Server
		return a, nil
	case own:
		res = failed.Answer
	case err != nil:
		return Answer{}, err
	}
	f.links.note(ref.Server, res.Parts)
	a := answer(res, own)
	a.From = ref.Server
	return a, nil
}

// find returns the tool of a name. A server may be just about to say that it has
// it.
func (f *Face) find(ctx context.Context, name string) (tool.Ref, error) {
	ref, err := f.tools().names.find("tool", name)
	if err == nil {
		return ref, nil
	}
	f.await(ctx)
	now := f.tools()
	if ref, err = now.names.find("tool", name); err == nil {
		return ref, nil
	}
	e := fault.Wrap(fault.NotFound, ErrNoTool, "%s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	if silent := unlisted(now.of); len(silent) > 0 {
		e.Message += "; not known yet are the tools of " + strings.Join(silent, ", ")
	}
	return tool.Ref{}, e
}

func answer(r tool.Result, failed bool) Answer {
	a := Answer{Content: []json.RawMessage{}, Structured: r.Structured, Failed: failed, Meta: r.Meta}
	for _, p := range r.Parts {
		a.Content = append(a.Content, content(p))
	}
	return a
}

// Failure is an error in words, as a tool's answer.
func Failure(words string) Answer {
	return Answer{Content: []json.RawMessage{content(tool.Part{Kind: tool.Text, Text: words})}, Failed: true}
}
