package model

import (
	_ "embed"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
)

//go:embed prompts/system.md
var systemPrompt string

//go:embed prompts/task.md
var taskPrompt string

// Limits of the parts of a prompt, in bytes.
const (
	maxDescription = 2000
	maxFailedCode  = 32 << 10
	maxFailedError = 4000
)

// taskTemplate prefixes every line of a description, so that no description can imitate
// another part of the prompt.
var taskTemplate = template.Must(template.New("task").Funcs(template.FuncMap{
	"comment": func(text string) string {
		text = strings.TrimSpace(shorten(newlines.Replace(text), maxDescription))
		return "# " + strings.ReplaceAll(text, "\n", "\n# ")
	},
	"fenced": fenced,
}).Parse(taskPrompt))

// newlines replaces everything that a model may read as the end of a line.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// prompt returns the prompt of a request.
func prompt(r task.Request) (string, error) {
	if r.Failed != nil {
		r.Failed = &task.Attempt{Code: shorten(r.Failed.Code, maxFailedCode), Error: shorten(r.Failed.Error, maxFailedError)}
	}
	var b strings.Builder
	err := taskTemplate.Execute(&b, r)
	return b.String(), err
}

// fenced returns text between fences that are longer than any in it.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// shorten omits the middle of a text that is longer than limit: the causes of an error are
// often at its end.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit/2, len(text)-limit/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "\n[…]\n" + text[tail:]
}
