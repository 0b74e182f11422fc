package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Call calls a tool. A result with isError returns a *tool.Failure; so does a JSON-RPC
// error, because many servers report a failed tool that way.
func (s *Session) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	s.loadHeaderTools(ctx)
	a := &request{method: "tools/call", ask: c.Ask, claims: c.Hold != nil, large: c.Store != nil && s.interceptor.spool != nil}
	defer s.interceptor.closeFile(a)
	params := &sdk.CallToolParams{Name: c.Tool, Arguments: json.RawMessage("{}")}
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
		data, err := s.callTool(ctx, a, params, c.Progress)
		if _, refused := err.(*ServerError); refused && ctx.Err() != nil {
			err = ctx.Err() // the answer to the cancellation is not that of the call
		}
		if a.inputRequired != nil {
			if err := s.nextRound(ctx, a, params); err != nil {
				return tool.Result{}, err
			}
			continue
		}
		if err == nil && a.file == nil {
			if err = c.HoldResult(ctx, int64(len(data))); err != nil {
				return tool.Result{}, &tool.NotKept{Err: err}
			}
			s.interceptor.unclaimed.end(a)
		}
		var r tool.Result
		switch {
		case err != nil || a.file == nil:
			r, err = callResult(c.Ref, data, err)
		case !a.declinedOwn:
			r, err = s.interceptor.storeLarge(ctx, c, data)
		}
		if r, err = a.noteDeclined(c.Ref, r, err); err != nil && a.notSent() {
			err = &tool.NotSent{Err: err}
		}
		return r, err
	}
}

// callResult returns the outcome of a tools/call.
func callResult(ref tool.Ref, data json.RawMessage, err error) (tool.Result, error) {
	if r, ok := err.(*ServerError); ok && !r.IsMethodNotFound() {
		return tool.Result{}, &tool.Failure{Ref: ref, Message: r.text(), Data: r.Data, Unknown: r.MayHaveEffect()}
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

// parseResult parses a tool result, which refers to data.
func parseResult(ref tool.Ref, data json.RawMessage) (tool.Result, error) {
	m, ok := rawjson.Members(data, "content", "structuredContent", "isError", "_meta")
	if !ok {
		return tool.Result{}, fmt.Errorf("%w: the result is no object", ErrMalformed)
	}
	r := tool.Result{Meta: m[3]}
	if string(m[1]) != "null" {
		r.Structured = m[1]
	}
	var err error
	if r.Parts, err = parseParts(m[0]); err != nil {
		return tool.Result{}, err
	}
	var failed bool
	if m[2] != nil {
		if err := json.Unmarshal(m[2], &failed); err != nil {
			return tool.Result{}, fmt.Errorf("%w: isError: %w", ErrMalformed, err)
		}
	}
	if failed {
		return tool.Result{}, &tool.Failure{Ref: ref, Message: cmp.Or(r.Text(), "the tool failed and did not say why"), Data: r.Structured,
			Answer: r}
	}
	return r, nil
}

// parseParts parses a list of content blocks, nil for none.
func parseParts(list json.RawMessage) (parts []tool.Part, err error) {
	if list == nil || string(list) == "null" {
		return nil, nil
	}
	if list[0] != '[' {
		return nil, fmt.Errorf("%w: content is no list", ErrMalformed)
	}
	wrong := rawjson.EachItem(list, func(item []byte) bool {
		var p tool.Part
		p, err = parsePart(item)
		parts = append(parts, p)
		return err == nil
	})
	return parts, cmp.Or(err, wrong)
}

// block is a content block, possibly nested in another.
type block struct {
	kind, text, mime, uri, name, description string
	data, blob, resource                     json.RawMessage
}

// decodeBlock decodes the texts of a content block.
func decodeBlock(item json.RawMessage) (c block, err error) {
	m, ok := rawjson.Members(item, "type", "text", "mimeType", "uri", "name", "description", "data", "blob", "resource")
	if !ok {
		return c, fmt.Errorf("%w: a content block is no object", ErrMalformed)
	}
	for i, text := range []*string{&c.kind, &c.text, &c.mime, &c.uri, &c.name, &c.description} {
		if *text, ok = stringOf(m[i]); !ok {
			return c, fmt.Errorf("%w: a member of a content block is no string: %.40s", ErrMalformed, m[i])
		}
	}
	c.data, c.blob, c.resource = m[6], m[7], m[8]
	return c, nil
}

// decodeBytes decodes the bytes of a content block.
func decodeBytes(v json.RawMessage) (b []byte, err error) {
	if v == nil {
		return nil, nil
	}
	if err := json.Unmarshal(v, &b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return b, nil
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
	c, err := decodeBlock(item)
	if err != nil {
		return tool.Part{}, err
	}
	switch c.kind {
	case "text":
		return tool.Part{Kind: tool.Text, Text: c.text, MIME: c.mime}, nil
	case "image", "audio":
		data, err := decodeBytes(c.data)
		return tool.Part{Kind: tool.Kind(c.kind), Data: data, MIME: c.mime}, err
	case "resource_link":
		return tool.Part{Kind: tool.Link, Text: c.description, MIME: c.mime, URI: c.uri, Name: c.name}, nil
	case "resource":
		return parseResource(c.resource)
	}
	return tool.Part{Kind: tool.Text, Text: string(item), MIME: "application/json"}, nil
}

// parseResource parses the contents of a resource.
func parseResource(item json.RawMessage) (tool.Part, error) {
	c, err := decodeBlock(item)
	if err != nil {
		return tool.Part{}, err
	}
	if c.blob != nil && string(c.blob) != "null" {
		data, err := decodeBytes(c.blob)
		return tool.Part{Kind: tool.Blob, Data: data, MIME: c.mime, URI: c.uri}, err
	}
	return tool.Part{Kind: tool.Text, Text: c.text, MIME: c.mime, URI: c.uri}, nil
}
