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
	Default     any
}

// fill asks for the fields of a question, one a line. An empty line declines
// where there is no default.
func (a *app) fill(ctx context.Context, q execution.Question) (json.RawMessage, bool) {
	var form struct{ Properties map[string]field }
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, false
	}
	s := styleFor(a.stderr)
	fmt.Fprintf(a.stderr, "%s %s\n", s.dim(whoAsks(q)), visible(q.Text))
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		f := form.Properties[name]
		fmt.Fprintf(a.stderr, "%s ", s.dim(visibleName(f.prompt(name))+":"))
		line, ok := a.line(ctx)
		if ok && line == "" && f.Default != nil {
			content[name] = f.Default
			continue
		}
		if !ok || line == "" {
			return nil, false
		}
		content[name] = f.value(line)
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

// prompt is what to type.
func (f field) prompt(name string) string {
	what := f.Type
	if len(f.Enum) > 0 {
		var choices []string
		for _, c := range f.Enum {
			choices = append(choices, fmt.Sprint(c))
		}
		what = strings.Join(choices, " | ")
	}
	if f.Type == "boolean" {
		what = "yes | no"
	}
	if f.Default != nil {
		return fmt.Sprintf("%s (%s, empty is %v)", name, what, f.Default)
	}
	return fmt.Sprintf("%s (%s, empty declines)", name, what)
}

// value reads what was typed; what does not fit is refused by who asked.
func (f field) value(line string) any {
	switch f.Type {
	case "boolean":
		return strings.EqualFold(line, "yes") || strings.EqualFold(line, "y") || line == "true"
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
