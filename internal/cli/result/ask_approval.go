package result

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
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
func askApproval(ctx context.Context, env *cli.Env, q question.Question) (json.RawMessage, bool) {
	s := cli.StyleFor(env.Stderr)
	choices := scopeChoices(q.Schema)
	prompt := "approve (" + strings.Join(scopeWords(choices), " | ") + " | no, with a reason):"
	if q.From != "" { // the text above may be longer than the screen
		prompt = cli.VisibleName(q.From) + ": " + prompt
	}
	fmt.Fprintln(env.Stderr, cli.Visible(q.Text))
	if q.Asker != "" {
		fmt.Fprintf(env.Stderr, "\n%s\n", cli.Visible(q.Asker))
	}
	if len(choices) > 0 {
		fmt.Fprintln(env.Stderr)
	}
	for _, c := range choices {
		fmt.Fprintf(env.Stderr, "  %-10s %s\n", c.word, s.Dim(cli.Visible(c.effect)))
	}
	for {
		fmt.Fprintf(env.Stderr, "%s ", s.Dim(prompt))
		line, ok := env.ReadLine(ctx)
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
func confirmAlways(ctx context.Context, env *cli.Env, choices []scopeChoice) bool {
	i := slices.IndexFunc(choices, func(c scopeChoice) bool { return c.scope == string(grant.Tool) })
	fmt.Fprintf(env.Stderr, "Always allows %s.\n%s ", cli.Visible(strings.TrimPrefix(choices[i].effect, "also ")), cli.StyleFor(env.Stderr).
		Dim("Add the rule? [y/N]"))
	line, _ := env.ReadLine(ctx)
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
