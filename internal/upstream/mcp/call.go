package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Call calls a tool. A result with isError returns a *tool.Failure; so does a JSON-RPC
// error, because many servers report a failed tool that way.
func (s *Session) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	s.loadHeaderTools(ctx)
	a := &request{method: "tools/call", ask: c.Ask}
	params := &sdk.CallToolParams{Name: c.Tool}
	if c.Args != nil {
		params.Arguments = c.Args
	}
	for name, value := range c.Trace {
		if params.Meta == nil {
			params.Meta = sdk.Meta{}
		}
		params.Meta[name] = value
	}
	for {
		if c.Progress != nil {
			params.SetProgressToken(s.interceptor.newProgressToken(a))
		}
		data, err := s.roundTrip(ctx, a, c.Progress, func(ctx context.Context) error {
			_, err := s.cs.CallTool(ctx, params)
			return err
		})
		if a.inputRequired != nil {
			if err := s.nextRound(ctx, a, params); err != nil {
				return tool.Result{}, err
			}
			continue
		}
		r, err := callResult(c.Ref, data, err)
		return a.noteDeclined(c.Ref, r, err)
	}
}

// callResult returns the outcome of a tools/call.
func callResult(ref tool.Ref, data json.RawMessage, err error) (tool.Result, error) {
	if r, ok := err.(*ServerError); ok && !r.IsMethodNotFound() {
		return tool.Result{}, &tool.Failure{Ref: ref, Message: r.Message, Data: r.Data}
	}
	if err != nil {
		return tool.Result{}, err
	}
	return parseResult(ref, data)
}

// loadHeaderTools lists the tools once, because the SDK learns only from the list which
// arguments a tool also requires as headers. If listing fails, the server may refuse the
// call.
func (s *Session) loadHeaderTools(ctx context.Context) {
	if _, http := s.link.(*httpLink); !http || s.info.Protocol <= legacyProtocol {
		return
	}
	s.listMu.Lock()
	defer s.listMu.Unlock()
	if s.listed {
		return
	}
	_, _, err := s.Tools(ctx, "")
	s.listed = err == nil || ctx.Err() == nil
}

// parseResult parses a tool result.
func parseResult(ref tool.Ref, data json.RawMessage) (tool.Result, error) {
	var answer struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
		IsError    bool              `json:"isError"`
		Meta       json.RawMessage   `json:"_meta"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return tool.Result{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := tool.Result{Meta: answer.Meta}
	if string(answer.Structured) != "null" {
		r.Structured = answer.Structured
	}
	for _, item := range answer.Content {
		p, err := parsePart(item)
		if err != nil {
			return tool.Result{}, err
		}
		r.Parts = append(r.Parts, p)
	}
	if answer.IsError {
		return tool.Result{}, &tool.Failure{Ref: ref, Message: cmp.Or(r.Text(), "the tool failed and did not say why"), Data: r.Structured, Answer: r}
	}
	return r, nil
}

// content is a content block, possibly nested in another.
type content struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	Data        []byte          `json:"data"`
	MIME        string          `json:"mimeType"`
	URI         string          `json:"uri"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Resource    json.RawMessage `json:"resource"`
}

// parsePart parses a content block and keeps its JSON.
func parsePart(item json.RawMessage) (tool.Part, error) {
	p, err := parseContent(item)
	p.Raw = item
	return p, err
}

// parseContent parses a content block. An unknown type becomes a text part with its
// JSON.
func parseContent(item json.RawMessage) (tool.Part, error) {
	var c content
	if err := json.Unmarshal(item, &c); err != nil {
		return tool.Part{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	switch c.Type {
	case "text":
		return tool.Part{Kind: tool.Text, Text: c.Text, MIME: c.MIME}, nil
	case "image":
		return tool.Part{Kind: tool.Image, Data: c.Data, MIME: c.MIME}, nil
	case "audio":
		return tool.Part{Kind: tool.Audio, Data: c.Data, MIME: c.MIME}, nil
	case "resource_link":
		return tool.Part{Kind: tool.Link, Text: c.Description, MIME: c.MIME, URI: c.URI, Name: c.Name}, nil
	case "resource":
		return parseResource(c.Resource)
	}
	return tool.Part{Kind: tool.Text, Text: string(item), MIME: "application/json"}, nil
}

// parseResource parses the contents of a resource.
func parseResource(data json.RawMessage) (tool.Part, error) {
	var c struct {
		content
		Blob *[]byte `json:"blob"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return tool.Part{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if c.Blob != nil {
		return tool.Part{Kind: tool.Blob, Data: *c.Blob, MIME: c.MIME, URI: c.URI}, nil
	}
	return tool.Part{Kind: tool.Text, Text: c.Text, MIME: c.MIME, URI: c.URI}, nil
}
