package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Resource is a resource or a resource template of a server.
type Resource struct {
	URI         string `json:"uri"` // for a template, a URI template
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIME        string `json:"mime,omitempty"`
	Size        int64  `json:"size,omitempty"` // bytes; 0 if unknown
	Template    bool   `json:"template,omitempty"`
}

// Resources returns all resources of the server, then its templates. skipped is the number of
// items that it listed and that cannot be used.
func (s *Session) Resources(ctx context.Context) (all []Resource, skipped int, err error) {
	err = paginate(ctx, "resources/list", func(ctx context.Context, cursor string, a *request) (json.RawMessage, error) {
		data, err := s.roundTrip(ctx, a, nil, func(ctx context.Context) error {
			_, err := s.cs.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, err
		}
		found, n, err := parseResources(data, len(all))
		all, skipped = append(all, found...), skipped+n
		return data, err
	})
	if err != nil {
		return nil, 0, err
	}
	err = paginate(ctx, "resources/templates/list", func(ctx context.Context, cursor string, a *request) (json.RawMessage, error) {
		data, err := s.roundTrip(ctx, a, nil, func(ctx context.Context) error {
			_, err := s.cs.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, err
		}
		found, n, err := parseResources(data, len(all))
		all, skipped = append(all, found...), skipped+n
		return data, err
	})
	return all, skipped, err
}

// parseResources parses a page. It skips and counts invalid items, items without a URI, and those
// beyond the limit.
func parseResources(data json.RawMessage, have int) (found []Resource, skipped int, err error) {
	var page struct {
		Resources []json.RawMessage `json:"resources"`
		Templates []json.RawMessage `json:"resourceTemplates"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for i, item := range append(page.Resources, page.Templates...) {
		var r map[string]json.RawMessage
		if json.Unmarshal(item, &r) != nil || have+len(found) >= maxItems {
			skipped++
			continue
		}
		uri, template := decodeString(r["uri"]), i >= len(page.Resources)
		if template {
			uri = decodeString(r["uriTemplate"])
		}
		if uri == "" {
			skipped++
			continue
		}
		var size int64
		_ = json.Unmarshal(r["size"], &size) // any other type keeps 0
		found = append(found, Resource{URI: uri, Template: template, Size: size, Name: sanitize.Line(decodeString(r["name"]), maxName),
			Title:       sanitize.Line(decodeString(r["title"]), maxName),
			Description: sanitize.Text(decodeString(r["description"]), maxText), MIME: sanitize.Line(decodeString(r["mimeType"]), maxName)})
	}
	return found, skipped, nil
}

// ReadResource returns the contents of a resource, several parts for a directory.
func (s *Session) ReadResource(ctx context.Context, uri string) (parts []tool.Part, err error) {
	data, err := s.roundTrip(ctx, &request{method: "resources/read"}, nil, func(ctx context.Context) error {
		_, err := s.cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		return err
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Contents []json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, item := range answer.Contents {
		p, err := parseResource(item)
		if err != nil {
			return nil, err
		}
		p.Raw = item
		parts = append(parts, p)
	}
	return parts, nil
}

// Prompt is a prompt that a server offers.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
}

// Argument is an argument of a Prompt. All values are strings.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Message is a message of a Prompt.
type Message struct {
	Role string    `json:"role"` // user or assistant
	Part tool.Part `json:"part"`
}

// Prompts returns all prompts of the server. skipped is the number of items that it listed and that
// cannot be used.
func (s *Session) Prompts(ctx context.Context) (all []Prompt, skipped int, err error) {
	err = paginate(ctx, "prompts/list", func(ctx context.Context, cursor string, a *request) (json.RawMessage, error) {
		data, err := s.roundTrip(ctx, a, nil, func(ctx context.Context) error {
			_, err := s.cs.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, err
		}
		found, n, err := parsePrompts(data, len(all))
		all, skipped = append(all, found...), skipped+n
		return data, err
	})
	return all, skipped, err
}

// parsePrompts parses a page. It skips and counts invalid items, items without a usable name, and those
// beyond the limit.
func parsePrompts(data json.RawMessage, have int) (found []Prompt, skipped int, err error) {
	var page struct {
		Prompts []json.RawMessage `json:"prompts"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, item := range page.Prompts {
		var p Prompt
		if json.Unmarshal(item, &p) != nil || p.Name == "" || len(p.Name) > maxName || have+len(found) >= maxItems {
			skipped++
			continue
		}
		p.Title, p.Description = sanitize.Line(p.Title, maxName), sanitize.Text(p.Description, maxText)
		for i := range p.Arguments {
			p.Arguments[i].Description = sanitize.Text(p.Arguments[i].Description, maxText)
		}
		found = append(found, p)
	}
	return found, skipped, nil
}

// GetPrompt returns the messages of a prompt.
func (s *Session) GetPrompt(ctx context.Context, name string, args map[string]string) (messages []Message, err error) {
	data, err := s.roundTrip(ctx, &request{method: "prompts/get"}, nil, func(ctx context.Context) error {
		_, err := s.cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: args})
		return err
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, m := range answer.Messages {
		p, err := parsePart(m.Content)
		if err != nil {
			return nil, err
		}
		messages = append(messages, Message{Role: m.Role, Part: p})
	}
	return messages, nil
}

// Completion is a request for values of an argument.
type Completion struct {
	Prompt    string            // name of the prompt, or
	Template  string            // URI template of the resource template
	Name      string            // of the argument
	Value     string            // partial value
	Arguments map[string]string // arguments whose values are already set
}

// Values are suggested values for an argument.
type Values struct {
	Values []string `json:"values"`
	Total  int      `json:"total,omitempty"` // 0 if unknown
	More   bool     `json:"hasMore,omitempty"`
}

// Complete returns completions for an argument.
func (s *Session) Complete(ctx context.Context, c Completion) (Values, error) {
	ref := &sdk.CompleteReference{Type: "ref/prompt", Name: c.Prompt}
	if c.Template != "" {
		ref = &sdk.CompleteReference{Type: "ref/resource", URI: c.Template}
	}
	params := &sdk.CompleteParams{Ref: ref, Argument: sdk.CompleteParamsArgument{Name: c.Name, Value: c.Value}}
	if len(c.Arguments) > 0 {
		params.Context = &sdk.CompleteContext{Arguments: c.Arguments}
	}
	data, err := s.roundTrip(ctx, &request{method: "completion/complete"}, nil, func(ctx context.Context) error {
		_, err := s.cs.Complete(ctx, params)
		return err
	})
	if err != nil {
		return Values{}, err
	}
	var answer struct {
		Completion Values `json:"completion"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Values{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return answer.Completion, nil
}
