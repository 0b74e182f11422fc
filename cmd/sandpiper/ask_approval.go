package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
)

// scopeChoice is a scope that an approval may have, as its form describes it.
type scopeChoice struct {
	word   string // that a person types
	scope  string // in the form
	effect string
}

// scopeChoices returns the scopes that the form of an approval offers; none if it can only be given once.
func scopeChoices(schema json.RawMessage) (all []scopeChoice) {
	var form struct {
		Properties struct {
			For struct {
				Enum      []string
				EnumNames []string
			}
		}
	}
	if json.Unmarshal(schema, &form) != nil || len(form.Properties.For.Enum) != len(form.Properties.For.EnumNames) {
		return nil
	}
	words := map[string]string{"once": "yes", string(grant.Tool): "always"}
	for i, scope := range form.Properties.For.Enum {
		_, effect, _ := strings.Cut(form.Properties.For.EnumNames[i], ": ")
		all = append(all, scopeChoice{cmp.Or(words[scope], scope), scope, effect})
	}
	return all
}

// askApproval asks whether a call may be made, until the answer is a scope or begins with no. The end of
// the input denies it.
func askApproval(ctx context.Context, env *app, q question.Question) (json.RawMessage, bool) {
	s := styleFor(env.stderr)
	choices := scopeChoices(q.Schema)
	prompt := "approve (" + strings.Join(scopeWords(choices), " | ") + " | no, with a reason):"
	if q.From != "" { // the text above may be longer than the screen
		prompt = visibleName(q.From) + ": " + prompt
	}
	fmt.Fprintln(env.stderr, visible(q.Text))
	if q.Asker != "" {
		fmt.Fprintf(env.stderr, "\n%s\n", visible(q.Asker))
	}
	if len(choices) > 0 {
		fmt.Fprintln(env.stderr)
	}
	for _, c := range choices {
		fmt.Fprintf(env.stderr, "  %-10s %s\n", c.word, s.dim(visible(c.effect)))
	}
	for {
		fmt.Fprintf(env.stderr, "%s ", s.dim(prompt))
		line, ok := env.readLine(ctx)
		if !ok {
			return nil, false
		}
		answer := parseApproval(line, choices)
		if answer["for"] == string(grant.Tool) && !confirmAlways(ctx, env, choices) {
			answer = nil
		}
		if answer != nil {
			body, err := json.Marshal(answer)
			return body, err == nil
		}
		prompt = "type " + strings.Join(scopeWords(choices), ", ") + ", or no and a reason:"
	}
}

// scopeWords returns the words for yes.
func scopeWords(choices []scopeChoice) []string {
	if len(choices) == 0 {
		return []string{"yes"}
	}
	var words []string
	for _, c := range choices {
		words = append(words, c.word)
	}
	return words
}

// confirmAlways shows the rule that an answer adds, and asks again: nothing else reminds the person of it later.
func confirmAlways(ctx context.Context, env *app, choices []scopeChoice) bool {
	i := slices.IndexFunc(choices, func(c scopeChoice) bool { return c.scope == string(grant.Tool) })
	fmt.Fprintf(env.stderr, "Always allows %s.\n%s ", visible(strings.TrimPrefix(choices[i].effect, "also ")), styleFor(env.stderr).dim("Add the rule? [y/N]"))
	line, _ := env.readLine(ctx)
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(line))
}

// parseApproval returns the content of an answer; nil if the line neither is yes or one of the choices nor
// begins with no. It rejects yes with a condition, which would not be applied.
func parseApproval(line string, choices []scopeChoice) map[string]any {
	end := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(line)
	}
	rest := strings.TrimLeft(line[end:], " ,.;:!")
	word := strings.ToLower(line[:end])
	chosen := slices.IndexFunc(choices, func(c scopeChoice) bool { return word == c.word || word == c.scope })
	switch {
	case word == "no" || word == "n":
		return map[string]any{"approve": false, "reason": rest}
	case rest != "":
		return nil
	case word == "yes" || word == "y":
		return map[string]any{"approve": true}
	case chosen >= 0:
		return map[string]any{"approve": true, "for": choices[chosen].scope}
	}
	return nil
}
