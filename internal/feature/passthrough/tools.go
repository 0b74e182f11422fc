package passthrough

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// tools are the listed tools of one snapshot.
type tools struct {
	of    *catalog.Snapshot
	lines []line
	names names
	hash  [sha256.Size]byte // of the listed tools
}

// ToolPage is one page of the list of tools.
type ToolPage struct {
	Tools []json.RawMessage `json:"tools"`
	Next  string            `json:"nextCursor,omitempty"`
}

// Tools lists the tools that can be called; the cursor is "" or the Next of the previous
// page.
func (g *Aggregator) Tools(ctx context.Context, cursor string) (p ToolPage, err error) {
	if cursor == "" {
		g.await(ctx, g.now())
	}
	p.Tools, p.Next, err = page(g.tools.of(g.cfg.Catalog.Now(), g.now()).lines, cursor)
	return p, err
}

// toolCache caches the tools of the last snapshot.
type toolCache struct {
	mu      sync.Mutex
	all     *tools                       // for the operator
	parts   map[*catalog.Snapshot]*tools // for viewers
	changes uint64                       // of the list; it may change back between two polls
}

// of returns the tools of a part of a snapshot.
func (c *toolCache) of(now, part *catalog.Snapshot) *tools {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || c.all.of != now {
		before := c.all
		c.all, c.parts = newTools(now), map[*catalog.Snapshot]*tools{}
		if before != nil && before.hash != c.all.hash {
			c.changes++
		}
	}
	if part == now {
		return c.all
	}
	if c.parts[part] == nil {
		c.parts[part] = newTools(part)
	}
	return c.parts[part]
}

// news changes when the list has changed.
func (c *toolCache) news() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

func newTools(now *catalog.Snapshot) *tools {
	t := &tools{of: now}
	var all []tool.Ref
	for _, d := range now.Tools {
		if d.Connected { // including quarantined ones, so that accepting one renames none
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

// described is a tool as protocol JSON.
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
	// Clients reject the whole list if one schema is not an object schema.
	if kind, _ := typeOf(d.Output); kind == "object" {
		t.Output = d.Output
	}
	return t
}

// typeOf returns the type of a schema, and whether it has one.
func typeOf(schema json.RawMessage) (kind string, typed bool) {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	_ = json.Unmarshal(schema, &s) // a boolean schema has no type
	_ = json.Unmarshal(s.Type, &kind)
	return kind, s.Type != nil
}

// Call is a call of a tool by its listed name.
type Call struct {
	Name     string
	Args     json.RawMessage // nil means none
	Progress func(done, total float64, message string)
	Ask      func(context.Context, Question) (Reply, error) // as in tool.Call
	Approve  func(context.Context, Approval) (Reply, error) // as in tool.Call
	Client   string                                         // as in tool.Origin
}

// Questions during a call and their replies.
type (
	Question = tool.Question
	Reply    = tool.Reply
	Approval = tool.Approval
	Action   = tool.Action
)

// Answer is the answer of a tool, as protocol JSON.
type Answer struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent,omitempty"`
	Failed     bool              `json:"isError,omitempty"`
	Meta       json.RawMessage   `json:"_meta,omitempty"`
	From       string            `json:"-"` // the server
}

// ErrNoTool is wrapped by the error of Call for an unknown tool.
var ErrNoTool = errors.New("no such tool")

// Call calls a tool for a tenant. An error result of the tool is an Answer; an error means
// that there is none, except for Waiting.
func (g *Aggregator) Call(ctx context.Context, home *home.Home, gate *redact.Gate, c Call) (Answer, error) {
	ref, err := g.find(ctx, c.Name)
	if err != nil {
		return Answer{}, err
	}
	owner := g.owner(home, gate)
	owner.Forward = true
	res, err := g.cfg.Calls.For(owner).Call(ctx, tool.Call{
		Ref:      ref,
		Args:     c.Args,
		Hold:     memory.FromContext(ctx).Answer,
		Progress: c.Progress,
		Ask:      c.Ask,
		Approve:  c.Approve,
		Origin:   tool.Origin{Client: c.Client},
	})
	failed, own := errors.AsType[*tool.Failure](err)
	_, waits := errors.AsType[*approval.Waiting](err)
	switch {
	case waits:
		t, _ := g.now().Find(ref)
		return Answer{Failed: describe("", t.Definition).Output != nil, From: ref.Server}, err
	case own && failed.Cause != nil && !failed.Unknown && !failed.Withheld:
		return Answer{}, failed.Cause
	case own && failed.Answer.Parts == nil:
		a := Failure(failed.Message)
		a.From = ref.Server
		return a, nil
	case own:
		res = failed.Answer
	case err != nil:
		return Answer{}, err
	}
	g.links.record(ref.Server, res.Parts)
	a := answer(res, own)
	a.From = ref.Server
	return a, nil
}

// find returns the tool with a name. It waits for servers that may be about to list it.
func (g *Aggregator) find(ctx context.Context, name string) (tool.Ref, error) {
	ref, err := g.tools.of(g.cfg.Catalog.Now(), g.now()).names.find("tool", name)
	if err == nil {
		return ref, nil
	}
	g.await(ctx, g.now())
	now := g.tools.of(g.cfg.Catalog.Now(), g.now())
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

// Waiting is the answer of a call that waits for an approval, from that of Call. It is no error, since clients
// give up after two of them; except for tools that declare an output, without which clients refuse an answer.
func Waiting(a Answer, name, id, words string) Answer {
	type question struct {
		ID       string `json:"id"`
		From     string `json:"from"`
		Approval string `json:"approval_id"`
	}
	text, err := json.Marshal(struct {
		Success   bool         `json:"success"`
		Type      string       `json:"error_type"`
		Source    reply.Source `json:"error_source"`
		Error     string       `json:"error"`
		Questions []question   `json:"questions"`
	}{false, reply.TypeApproval, reply.FromSandpiper, words, []question{{id, name, id}}})
	if err != nil { // strings only
		panic(err)
	}
	a.Content = []json.RawMessage{content(tool.Part{Kind: tool.Text, Text: string(text)})}
	return a
}

// Failure is an error as a tool's answer.
func Failure(words string) Answer {
	return Answer{Content: []json.RawMessage{content(tool.Part{Kind: tool.Text, Text: words})}, Failed: true}
}
