package main

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ask puts a question of running code to the person at the terminal, until it is
// answered in another way. Without a terminal nobody is there to ask, and the code is
// told so.
func (a *app) ask(ctx context.Context, q question.Question, closed <-chan struct{}) tool.Reply {
	if a.json || !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return nobody(q)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-closed:
			stop()
		case <-ctx.Done():
		}
	}()
	if content, ok := a.fill(ctx, q); ok {
		return tool.Reply{Action: tool.Accept, Content: content}
	}
	return tool.Reply{Action: tool.Decline}
}

// nobody is the reply where nobody is there.
func nobody(q question.Question) tool.Reply {
	if q.Approval == "" {
		return tool.Reply{Action: tool.Cancel}
	}
	return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"approve":false,"reason":"` +
		`nobody is at a terminal to be asked; run it at one, without --json, or have the policy allow this call"}`)}
}

// field is a property of a question's schema, as far as a terminal shows it.
type field struct {
	Type        string
	Title       string
	Description string
	Enum        []any
	OneOf       []choice
	Items       struct {
		Enum  []any
		AnyOf []choice
	}
	Default any
}

type choice struct {
	Const any
	Title string
}

// fill asks for the fields of a question, one a line. An empty line takes the
// default, leaves out what a server need not have, or declines.
func (a *app) fill(ctx context.Context, q question.Question) (json.RawMessage, bool) {
	var form struct {
		Properties map[string]field
		Required   []string
	}
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, false
	}
	s := styleFor(a.stderr)
	if q.Approval != "" {
		return a.fillApproval(ctx, q)
	}
	fmt.Fprintf(a.stderr, "%s %s\n", s.dim(whoAsks(q)), visible(q.Text))
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		f := form.Properties[name]
		optional := q.From != "" && !slices.Contains(form.Required, name)
		fmt.Fprintf(a.stderr, "%s ", s.dim(visibleName(f.prompt(name, optional))+":"))
		line, ok := a.readLine(ctx)
		switch {
		case ok && line != "":
			content[name] = f.value(line)
		case ok && f.Default != nil:
			content[name] = f.Default
		case !ok || !optional:
			return nil, false
		}
	}
	body, err := json.Marshal(content)
	return body, err == nil
}

// fillApproval asks whether a call may be made. Anything but a yes is a no.
func (a *app) fillApproval(ctx context.Context, q question.Question) (json.RawMessage, bool) {
	s := styleFor(a.stderr)
	fmt.Fprintf(a.stderr, "%s\n%s ", visible(q.Text), s.dim("approve (yes | no, and why not):"))
	line, ok := a.readLine(ctx)
	if !ok {
		return nil, false
	}
	content := map[string]any{"approve": true}
	if (field{Type: "boolean"}).value(line) != true {
		content = map[string]any{"approve": false, "reason": whyNot(line)}
	}
	body, err := json.Marshal(content)
	return body, err == nil
}

// whyNot is what stands behind a no; all of it if there is none.
func whyNot(line string) string {
	word, reason, _ := strings.Cut(line, " ")
	if word = strings.ToLower(strings.Trim(word, ",.;:")); word == "no" || word == "n" {
		line = reason
	}
	return strings.TrimSpace(line)
}

func whoAsks(q question.Question) string {
	if q.From == "" {
		return "the code asks:"
	}
	return "the tool " + visible(q.From) + " asks:"
}

// prompt is what to type, and what comes of nothing.
func (f field) prompt(name string, optional bool) string {
	what := f.Type
	if choices := f.choices(); len(choices) > 0 {
		what = strings.Join(choices, " | ")
	}
	switch {
	case f.Type == "boolean":
		what = "yes | no"
	case f.Type == "array":
		what += ", several with commas"
	}
	empty := "declines"
	if f.Default != nil {
		empty = fmt.Sprintf("is %v", f.Default)
	} else if optional {
		empty = "leaves it out"
	}
	return fmt.Sprintf("%s (%s, empty %s)", name, what, empty)
}

func (f field) choices() (all []string) {
	for _, v := range slices.Concat(f.Enum, f.Items.Enum) {
		all = append(all, fmt.Sprint(v))
	}
	for _, c := range slices.Concat(f.OneOf, f.Items.AnyOf) {
		text := fmt.Sprint(c.Const)
		if c.Title != "" {
			text += " = " + c.Title
		}
		all = append(all, text)
	}
	return all
}

// value reads what was typed; what does not fit is refused by who asked.
func (f field) value(line string) any {
	switch f.Type {
	case "boolean":
		return strings.EqualFold(line, "yes") || strings.EqualFold(line, "y") || line == "true"
	case "array":
		several := strings.Split(line, ",")
		for i, one := range several {
			several[i] = strings.TrimSpace(one)
		}
		return several
	case "number", "integer":
		if n, err := strconv.ParseFloat(line, 64); err == nil {
			return n
		}
	}
	return line
}
