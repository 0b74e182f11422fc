package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

type answerOptions struct {
	id       string // of the execution
	value    string // JSON, or text; "" means that the terminal asks
	question string // "" means the only one
	decline  bool
}

func (a *app) executionsAnswerCommand() *cobra.Command {
	var o answerOptions
	c := &cobra.Command{
		Use: "answer ID [VALUE]", Short: "Answer a question of a background execution",
		Long: `Answer passes a person's answer to a background execution whose state is input_required,
also if another process runs it: an approval step of a workflow, or a question of code
or of a server. VALUE is JSON, or text; yes and no answer a question for a decision.
Without VALUE, it shows the question and asks for the answer at the terminal. Tool calls
that need approval are answered with sandpiper approvals.`,
		Example: "  sandpiper executions list --background\n  sandpiper executions answer exec_e25rjubtohqyskjqfnsornzl3p yes",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			if len(args) > 1 {
				o.value = args[1]
			}
			if o.decline && o.value != "" {
				return usagef("VALUE conflicts with --decline")
			}
			return a.runExecutionsAnswer(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.question, "question", "", "`ID` of the question, if several are open")
	c.Flags().BoolVar(&o.decline, "decline", false, "decline to answer")
	return c
}

func (a *app) runExecutionsAnswer(ctx context.Context, o answerOptions) error {
	return a.withDaemonHome(ctx, func(d *daemon.Daemon, h *home.Home) error {
		open, err := d.Runner.BackgroundQuestions(ctx, h, o.id)
		if err != nil {
			return err
		}
		q, err := o.choose(open)
		if err != nil {
			return err
		}
		reply := tool.Reply{Action: tool.Decline}
		switch {
		case o.decline || q.Approval != "": // AnswerBackground names the command for approvals
		case o.value != "":
			reply = tool.Reply{Action: tool.Accept, Content: q.Fill(answerValue(q, o.value))}
		case a.json || !isTerminal(a.stdin) || !isTerminal(a.stderr):
			return usagef("there is no terminal to ask at: pass VALUE or --decline")
		default:
			shown, err := d.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}).RevealToPerson(ctx, q.Text)
			if err != nil {
				return err
			}
			if q.Text, _, _, err = shown.Content(); err != nil {
				return err
			}
			reply = a.ask(ctx, q, nil)
		}
		if err := d.Runner.AnswerBackground(ctx, h, o.id, question.Answer{q.ID: reply}); err != nil {
			return err
		}
		a.hintDaemon(d)
		a.printDone("Answer to question %s sent", q.ID)
		return nil
	})
}

// choose returns the question to answer.
func (o answerOptions) choose(open []question.Question) (question.Question, error) {
	var names []string
	for _, q := range open {
		if q.ID == o.question || o.question == "" && len(open) == 1 {
			return q, nil
		}
		names = append(names, q.ID)
	}
	if o.question == "" {
		return question.Question{}, usagef("%d questions are open: choose one with --question, of %s", len(open), strings.Join(names, ", "))
	}
	return question.Question{}, usagef("there is no open question %.40q; there are %s", o.question, strings.Join(names, ", "))
}

// decisions are the texts that answer a question for a decision.
var decisions = []string{"yes", "y", "no", "n"}

// answerValue returns a value in JSON. Text is converted to the type of the only property of the
// question's schema.
func answerValue(q question.Question, text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	var form struct{ Properties map[string]field }
	var value any = text
	if json.Unmarshal(q.Schema, &form) == nil && len(form.Properties) == 1 {
		for _, f := range form.Properties {
			if f.Type != "boolean" || slices.Contains(decisions, strings.ToLower(text)) { // other text is not a no
				value = f.value(text)
			}
		}
	}
	b, err := json.Marshal(value)
	if err != nil {
		b = fmt.Appendf(nil, "%q", text)
	}
	return b
}
