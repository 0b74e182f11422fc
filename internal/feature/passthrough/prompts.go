package passthrough

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// PromptPage is one page of the list of prompts.
type PromptPage struct {
	Prompts []json.RawMessage `json:"prompts"`
	Next    string            `json:"nextCursor,omitempty"`
}

// Prompts lists the prompts of all servers; the cursor is "" or the Next of the previous
// page.
func (g *Aggregator) Prompts(ctx context.Context, cursor string) (p PromptPage, err error) {
	stock := lists(ctx, g, g.prompts, cursor == "")
	names := promptNames(stock)
	var lines []line
	for server, all := range stock {
		for _, prompt := range all {
			name := prompt.Name
			prompt.Name = names.shown[tool.Ref{Server: server, Tool: name}]
			lines = append(lines, newLine(server, name, prompt))
		}
	}
	p.Prompts, p.Next, err = page(sorted(lines), cursor)
	return p, err
}

// promptNames returns the names of prompts, which no client restricts.
func promptNames(stock map[string][]upstream.Prompt) names {
	var all []tool.Ref
	for server, list := range stock {
		for _, p := range list {
			all = append(all, tool.Ref{Server: server, Tool: p.Name})
		}
	}
	return newNames(all, asItIs)
}

// Messages are the messages of a prompt.
type Messages struct {
	Messages []Message `json:"messages"`
	From     string    `json:"-"` // the server
}

// Message is one message of a prompt.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Prompt returns the messages of a prompt, if policy and privacy flows allow it. The arguments may
// have tokens.
func (g *Aggregator) Prompt(ctx context.Context, home *home.Home, gate *redact.Gate, name string, args map[string]string) (Messages,
	error) {
	ref, err := g.findPrompt(ctx, name)
	if err != nil {
		return Messages{}, err
	}
	var messages []upstream.Message
	err = g.cfg.Calls.Requester(g.owner(home, gate), "", "").
		Prompt(ctx, ref.Server, ref.Tool, args, func(args map[string]string) (err error) {
			if messages, err = g.connections(ref.Server).GetPrompt(ctx, ref.Server, ref.Tool, args); err != nil {
				return err
			}
			parts := make([]tool.Part, len(messages))
			for i, m := range messages {
				parts[i] = m.Part
			}
			return hold(ctx, parts)
		})
	if err != nil {
		return Messages{}, err
	}
	m := Messages{Messages: []Message{}, From: ref.Server}
	for _, s := range messages {
		g.links.record(ref.Server, []tool.Part{s.Part})
		m.Messages = append(m.Messages, Message{Role: s.Role, Content: content(s.Part)})
	}
	return m, nil
}

// findPrompt searches the cached prompts, then requests the lists again.
func (g *Aggregator) findPrompt(ctx context.Context, name string) (ref tool.Ref, err error) {
	for _, fresh := range []bool{false, true} {
		if ref, err = promptNames(lists(ctx, g, g.prompts, fresh)).find("prompt", name); err == nil {
			return ref, nil
		}
	}
	return ref, err
}

// Completion is a request for values of an argument.
type Completion struct {
	Ref struct {
		Type string `json:"type"` // ref/prompt or ref/resource
		Name string `json:"name"` // of the prompt
		URI  string `json:"uri"`  // the template
	} `json:"ref"`
	Argument struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"argument"`
	Context struct {
		Arguments map[string]string `json:"arguments"`
	} `json:"context"`
}

// Completed are the values.
type Completed struct {
	Completion upstream.Values `json:"completion"`
}

// Complete requests values from the server of the prompt or template. A server without
// completion returns none. What was typed may have tokens; privacy flows decide whether the server
// gets it. A reference to a prompt that does not exist means the tool of that
// name, whose schema has the values: the protocol has no references to tools.
func (g *Aggregator) Complete(ctx context.Context, home *home.Home, gate *redact.Gate, c Completion) (Completed, error) {
	question := upstream.Completion{Name: c.Argument.Name, Value: c.Argument.Value, Arguments: c.Context.Arguments}
	server := ""
	switch c.Ref.Type {
	case "ref/prompt":
		ref, err := g.findPrompt(ctx, c.Ref.Name)
		if fault.KindOf(err) == fault.NotFound {
			if of, findErr := g.find(ctx, c.Ref.Name); findErr == nil {
				t, _ := g.now().Find(of)
				return enumerated(t.Input, c.Argument.Name, c.Argument.Value), nil
			}
		}
		if err != nil {
			return Completed{}, err
		}
		server, question.Prompt = ref.Server, ref.Tool
	case "ref/resource":
		var err error
		if server, question.Template, err = g.locateTemplate(ctx, c.Ref.URI); err != nil {
			return Completed{}, err
		}
	default:
		return Completed{}, fault.New(fault.Invalid, "%.40q is nothing that can be completed: use ref/prompt or ref/resource", c.Ref.Type)
	}
	values, err := complete(ctx, g, g.cfg.Calls.Requester(g.owner(home, gate), "", ""), server, question)
	if fault.KindOf(err) == fault.NotFound {
		err = nil
	}
	if values.Values == nil {
		values.Values = []string{} // not null
	}
	return Completed{values}, err
}

// complete requests values of an argument with the values that may be sent.
func complete(ctx context.Context, g *Aggregator, by *toolcall.Requester, server string, q upstream.Completion) (values upstream.Values,
	err error) {
	typed := map[string]string{q.Name: q.Value}
	for k, v := range q.Arguments {
		if _, is := typed[k]; !is {
			typed[k] = v
		}
	}
	err = by.Complete(ctx, server, q.Prompt+q.Template, typed, func(sent map[string]string) (err error) {
		q.Value = sent[q.Name]
		if delete(sent, q.Name); q.Arguments != nil {
			q.Arguments = sent
		}
		values, err = g.connections(server).Complete(ctx, server, q)
		return err
	})
	return values, err
}

// maxValues is the protocol's limit of the values in one answer.
const maxValues = 100

// enumerated returns the values of an argument that start with the typed text.
func enumerated(input json.RawMessage, argument, typed string) Completed {
	values := slices.DeleteFunc(append([]string{}, schema.Enum(input, argument)...), func(v string) bool {
		return !strings.HasPrefix(strings.ToLower(v), strings.ToLower(typed))
	})
	n := len(values)
	return Completed{upstream.Values{Values: values[:min(n, maxValues)], Total: n, More: n > maxValues}}
}

// locateTemplate returns the server of a template, or of a URI.
func (g *Aggregator) locateTemplate(ctx context.Context, at string) (server, template string, err error) {
	if found := owners(lists(ctx, g, g.resources, false), true)[at]; len(found) == 1 {
		return found[0], at, nil
	}
	return g.locate(ctx, at)
}
