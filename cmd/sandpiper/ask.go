package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
)

// ask puts the questions of running code to the person at the terminal. Without
// one nobody is there to ask, and the code is told so.
func (a *app) ask(ctx context.Context, open []execution.Question) execution.Answer {
	replies := execution.Answer{}
	for _, q := range open {
		replies[q.ID] = execution.Reply{Action: execution.Cancel}
		if a.json || !isTerminal(a.stdin) || !isTerminal(a.stderr) {
			continue
		}
		if content, ok := a.fill(ctx, q); ok {
			replies[q.ID] = execution.Reply{Action: execution.Accept, Content: content}
		} else {
			replies[q.ID] = execution.Reply{Action: execution.Decline}
		}
	}
	return replies
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
func (a *app) fill(ctx context.Context, q execution.Question) (json.RawMessage, bool) {
	var form struct {
		Properties map[string]field
		Required   []string
	}
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, false
	}
	s := styleFor(a.stderr)
	fmt.Fprintf(a.stderr, "%s %s\n", s.dim(whoAsks(q)), visible(q.Text))
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		f := form.Properties[name]
		optional := q.From != "" && !slices.Contains(form.Required, name)
		fmt.Fprintf(a.stderr, "%s ", s.dim(visibleName(f.prompt(name, optional))+":"))
		line, ok := a.line(ctx)
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

func whoAsks(q execution.Question) string {
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

// line reads one from the terminal. A read that ctx cuts short is left behind; it
// ends with the process.
func (a *app) line(ctx context.Context) (string, bool) {
	if a.lines == nil {
		a.lines = bufio.NewReader(a.stdin)
	}
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		text, err := a.lines.ReadString('\n')
		got <- read{text, err}
	}()
	select {
	case r := <-got:
		return strings.TrimSpace(r.text), r.err == nil
	case <-ctx.Done():
		return "", false
	}
}
