package passthrough

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// content is a content block of an answer or prompt, as protocol JSON.
func content(p tool.Part) json.RawMessage {
	if p.Raw != nil {
		return p.Raw
	}
	type body struct {
		Type        string          `json:"type"`
		Text        *string         `json:"text,omitempty"`
		Data        []byte          `json:"data,omitempty"`
		MIME        string          `json:"mimeType,omitempty"`
		URI         string          `json:"uri,omitempty"`
		Name        string          `json:"name,omitempty"`
		Description string          `json:"description,omitempty"`
		Resource    json.RawMessage `json:"resource,omitempty"`
	}
	switch {
	case p.Kind == tool.Image || p.Kind == tool.Audio:
		return encode(body{Type: string(p.Kind), Data: p.Data, MIME: p.MIME})
	case p.Kind == tool.Link:
		return encode(body{Type: "resource_link", URI: p.URI, Name: p.Name, Description: p.Text, MIME: p.MIME})
	case p.Kind == tool.Blob || p.URI != "":
		return encode(body{Type: "resource", Resource: encodeResource(p, p.URI)})
	}
	return encode(body{Type: "text", Text: &p.Text})
}

// encodeResource returns the content of a resource, as protocol JSON, under the requested URI.
func encodeResource(p tool.Part, uri string) json.RawMessage {
	if p.Raw == nil {
		c := struct {
			URI  string  `json:"uri"`
			MIME string  `json:"mimeType,omitempty"`
			Text *string `json:"text,omitempty"`
			Blob *[]byte `json:"blob,omitempty"`
		}{URI: uri, MIME: p.MIME}
		if p.Kind == tool.Blob {
			c.Blob = &p.Data
		} else {
			c.Text = &p.Text
		}
		return encode(c)
	}
	if uri == p.URI {
		return p.Raw
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(p.Raw, &members) != nil {
		return p.Raw
	}
	members["uri"] = encode(uri)
	return encode(members)
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // strings, bytes and parsed JSON
		panic(err)
	}
	return b
}

// hold counts what has been read of a server in the share of a request.
func hold(ctx context.Context, parts []tool.Part) error {
	n := 0
	for _, p := range parts {
		n += max(len(p.Raw), len(p.Text)+len(p.Data))
	}
	return memory.FromContext(ctx).Answer(ctx, int64(n))
}
