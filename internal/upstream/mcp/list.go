package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Bounds of lists and their items.
const (
	maxPages  = 1000
	maxItems  = 100_000
	maxBytes  = 256 << 20 // bytes of all pages of a list
	maxName   = 300       // characters
	maxSchema = 1 << 20   // bytes
	maxNotes  = 100       // about one page
)

// Tools returns all tools of the server; server becomes part of their references. notes
// describe omitted tools.
func (s *Session) Tools(ctx context.Context, server string) (tools []tool.Definition, notes []string, err error) {
	seen := map[string]bool{}
	err = paginate(ctx, "tools/list", func(ctx context.Context, cursor string, a *request) (json.RawMessage, error) {
		var valid map[string]bool
		data, err := s.roundTrip(ctx, a, nil, func(ctx context.Context) error {
			res, err := s.cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			if err == nil {
				valid = toolNames(res.Tools)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		more, pageNotes, err := parseTools(server, data, valid, seen)
		tools, notes = append(tools, more...), append(notes, pageNotes...)
		return data, err
	})
	return tools, notes, err
}

func toolNames(tools []*sdk.Tool) map[string]bool {
	m := map[string]bool{}
	for _, t := range tools {
		m[t.Name] = true
	}
	return m
}

// paginate follows the cursors of a list to its end, within bounds. A server that does
// not support the method has an empty list; one that supports it only for the first page
// fails, so that half a list is not taken for a whole one.
func paginate(ctx context.Context, method string, page func(ctx context.Context, cursor string, a *request) (json.RawMessage,
	error)) error {
	cursor, bytes, visited := "", 0, map[string]bool{}
	for range maxPages {
		data, err := page(ctx, cursor, &request{method: method})
		if r, ok := err.(*ServerError); ok && r.IsMethodNotFound() && cursor == "" {
			return nil
		}
		if err != nil {
			return err
		}
		var next struct {
			Cursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(data, &next); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		bytes += len(data)
		if next.Cursor == "" {
			return nil
		}
		if visited[next.Cursor] || bytes > maxBytes {
			return ErrListTooLong
		}
		cursor, visited[next.Cursor] = next.Cursor, true
	}
	return ErrListTooLong
}

// parseTools parses one page. Of tools that require headers it keeps the valid ones, and
// of tools with the same name the first.
func parseTools(server string, data json.RawMessage, valid, seen map[string]bool) (tools []tool.Definition, notes []string, err error) {
	var page struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, item := range page.Tools {
		d, note := parseTool(server, item)
		switch {
		case d.Tool == "":
		case seen[d.Tool]:
			note = fmt.Sprintf("tool %q is listed twice; the first is used", d.Tool)
		case len(seen) == maxItems:
			note = fmt.Sprintf("there are more than %d tools: %q is omitted", maxItems, d.Tool)
		case wantsHeaders(item) && !valid[d.Tool]:
			note = fmt.Sprintf("tool %q is omitted: its header definitions are invalid", d.Tool)
		default:
			seen[d.Tool] = true
			tools = append(tools, d)
		}
		switch {
		case note != "" && len(notes) < maxNotes:
			notes = append(notes, note)
		case note != "" && len(notes) == maxNotes:
			notes = append(notes, "more tools of this page are changed or omitted")
		}
	}
	return tools, notes, nil
}

// parseTool parses one tool field by field and ignores invalid fields. A tool without a
// usable name is omitted.
func parseTool(server string, item json.RawMessage) (d tool.Definition, note string) {
	var t map[string]json.RawMessage
	if json.Unmarshal(item, &t) != nil {
		return d, "an item of the tool list is not an object"
	}
	name := decodeString(t["name"])
	if name == "" || len([]rune(name)) > maxName {
		return d, fmt.Sprintf("a tool is omitted: its name has %d characters, allowed are 1 to %d (%s)", len([]rune(name)), maxName,
			sanitize.Line(name, 60))
	}
	var notes annotations
	_ = json.Unmarshal(t["annotations"], &notes)
	d = tool.Definition{
		Ref: tool.Ref{Server: server, Tool: name}, Hints: notes.toHints(),
		Title:       sanitize.Line(first(decodeString(t["title"]), notes.title()), maxName),
		Description: sanitize.Text(decodeString(t["description"]), maxText),
	}
	var fits [2]bool
	d.Input, fits[0] = compactSchema(t["inputSchema"])
	if d.Input == nil {
		d.Input = json.RawMessage("true")
	}
	d.Output, fits[1] = compactSchema(t["outputSchema"])
	if !fits[0] || !fits[1] {
		note = fmt.Sprintf("a schema of tool %q is not an object or has more than %d bytes; any value is accepted for it", name, maxSchema)
	}
	return d, note
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func decodeString(data json.RawMessage) (s string) {
	_ = json.Unmarshal(data, &s) // any other type returns ""
	return s
}

// compactSchema compacts a schema. It returns nil if there is none, and true with ok
// false in place of an unusable one.
func compactSchema(data json.RawMessage) (s json.RawMessage, ok bool) {
	var b bytes.Buffer
	switch {
	case data == nil || string(data) == "null":
		return nil, true
	case data[0] != '{' && string(data) != "true" && string(data) != "false":
		return json.RawMessage("true"), false
	case json.Compact(&b, data) != nil || b.Len() > maxSchema:
		return json.RawMessage("true"), false
	}
	return sanitizeTexts(b.Bytes()), true
}

// schemaTexts matches the texts of a compact schema, which are shown to models like
// descriptions. It may also match a key inside data; its value then loses invisible
// characters.
var schemaTexts = regexp.MustCompile(`"(?:description|title|\$comment)":("(?:[^"\\]|\\.)*")`)

// sanitizeTexts sanitizes the texts of a schema.
func sanitizeTexts(schema []byte) []byte {
	return schemaTexts.ReplaceAllFunc(schema, func(match []byte) []byte {
		at := bytes.IndexByte(match, ':') + 1
		original := decodeString(match[at:])
		text := sanitize.Text(original, maxText)
		if text == original {
			return match
		}
		b, err := json.Marshal(text)
		if err != nil { // strings always marshal
			panic(err)
		}
		return slices.Concat(match[:at], b)
	})
}

// annotations are tool annotations, each parsed separately.
type annotations map[string]json.RawMessage

func (h annotations) title() string { return decodeString(h["title"]) }

func (h annotations) toHints() tool.Hints {
	return tool.Hints{ReadOnly: h.flag("readOnlyHint"), Destructive: h.flag("destructiveHint"),
		Idempotent: h.flag("idempotentHint"), OpenWorld: h.flag("openWorldHint")}
}

func (h annotations) flag(name string) *bool {
	yes := string(h[name]) == "true"
	if !yes && string(h[name]) != "false" {
		return nil
	}
	return &yes
}
