package result

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Ask prompts for the answer to a question of running code, until closed reports that
// it was answered elsewhere. Without a terminal it returns unattendedReply.
func Ask(ctx context.Context, env *cli.Env, q question.Question, closed <-chan struct{}) tool.Reply {
	if env.JSON || !cli.IsTerminal(env.Stdin) || !cli.IsTerminal(env.Stderr) {
		if q.Approval == "" && q.Call == 0 {
			env.Warn(fmt.Sprintf("%s %.200q, and there is no terminal to answer at: the answer is None", askerLabel(q), q.Text))
		}
		return unattendedReply(q)
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
	if content, ok := askFields(ctx, env, q); ok {
		return tool.Reply{Action: tool.Accept, Content: content, By: approval.CommandLine}
	}
	return tool.Reply{Action: tool.Decline, By: approval.CommandLine}
}

// unattendedReply is the reply without a terminal.
func unattendedReply(q question.Question) tool.Reply {
	if q.Approval == "" {
		return tool.Reply{Action: tool.Cancel}
	}
	reason := approval.NotAsked + ": there is no terminal to ask for approval; run the command at a terminal without --json, or allow " +
		"this call in the policy"
	if q.From != "" {
		reason += fmt.Sprintf(" of sandpiper.yaml: policy: {rules: [{tool: %q, decision: allow}]}", q.From)
	}
	content, err := json.Marshal(map[string]any{"approve": false, "reason": reason})
	if err != nil { // strings only
		panic(err)
	}
	return tool.Reply{Action: tool.Accept, Content: content}
}

// field is a property of a question's schema, with the keywords that a prompt uses.
type Field struct {
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

// askFields prompts for each field of a question. An empty line means the default, omits
// an optional field of a tool's question, or declines.
func askFields(ctx context.Context, env *cli.Env, q question.Question) (json.RawMessage, bool) {
	var form struct {
		Properties map[string]Field
		Required   []string
	}
	if err := json.Unmarshal(q.Schema, &form); err != nil {
		return nil, false
	}
	s := cli.StyleFor(env.Stderr)
	if q.Approval != "" {
		return askApproval(ctx, env, q)
	}
	fmt.Fprintf(env.Stderr, "%s %s\n", s.Dim(askerLabel(q)), cli.Visible(q.Text))
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		f := form.Properties[name]
		optional := (q.From != "" || q.Call > 0) && !slices.Contains(form.Required, name)
		fmt.Fprintf(env.Stderr, "%s ", s.Dim(cli.VisibleName(f.prompt(name, optional))+":"))
		line, ok := env.ReadLine(ctx)
		switch {
		case ok && line != "":
			content[name] = f.Value(line)
		case ok && f.Default != nil:
			content[name] = f.Default
		case !ok || !optional:
			return nil, false
		}
	}
	body, err := json.Marshal(content)
	return body, err == nil
}

func askerLabel(q question.Question) string {
	if q.Call > 0 {
		return "Sandpiper asks:"
	}
	if q.From == "" {
		return "the code asks:"
	}
	return "the tool " + cli.Visible(q.From) + " asks:"
}

// prompt describes the possible answers and the effect of an empty line.
func (f Field) prompt(name string, optional bool) string {
	values := f.Type
	if choices := f.choices(); len(choices) > 0 {
		values = strings.Join(choices, " | ")
	}
	switch {
	case f.Type == "boolean":
		values = "yes | no"
	case f.Type == "array":
		values += ", separated by commas"
	}
	empty := "declines"
	if f.Default != nil {
		empty = fmt.Sprintf("means %v", f.Default)
	} else if optional {
		empty = "omits it"
	}
	return fmt.Sprintf("%s (%s, empty %s)", name, values, empty)
}

func (f Field) choices() (all []string) {
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

// value converts an answer to the type of the field. A value of another type is passed
// on as text and rejected by the code or tool that asked.
func (f Field) Value(line string) any {
	switch f.Type {
	case "boolean":
		return strings.EqualFold(line, "yes") || strings.EqualFold(line, "y") || line == "true"
	case "array":
		items := strings.Split(line, ",")
		for i, item := range items {
			items[i] = strings.TrimSpace(item)
		}
		return items
	case "number", "integer":
		if n, err := strconv.ParseFloat(line, 64); err == nil {
			return n
		}
	}
	return line
}
