package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/live"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/unfinished"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

type answerOptions struct {
	id       string // of the execution
	call     int    // number of a call whose outcome is unknown, which the decision is about; 0 for none
	decision tool.Decision
	value    string // JSON, or text; "" means that the terminal asks
	question string // "" means the only one
	decline  bool
}

func executionsAnswerCommand(env *cli.Env) *cobra.Command {
	var o answerOptions
	c := &cobra.Command{
		Use:   "answer ID [VALUE] | answer ID CALL done|not-done|stop [ANSWER]",
		Short: "Answer a question of a background execution, or decide about a call of an interrupted one",
		Long: `Answer passes a person's answer to a background execution whose state is input_required,
also if another process runs it: an approval step of a workflow, or a question of code
or of a server. VALUE is JSON, or text; yes and no answer a question for a decision.
Without VALUE, it shows the question and asks for the answer at the terminal. Tool calls
that need approval are answered with sandpiper approvals.

With a CALL, it decides about a call that was in progress when the execution was
interrupted: done if it took effect, with its ANSWER in JSON for the code if that is
known; not-done if it did not, so that sandpiper executions resume makes it; or stop,
after which the execution cannot be resumed.`,
		Example: "  sandpiper executions list --background\n  sandpiper executions answer exec_e25rjubtohqyskjqfnsornzl3p yes",
		Args:    cobra.RangeArgs(1, 4),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			if len(args) > 2 {
				if err := o.readDecision(args[1:]); err != nil {
					return err
				}
				return runExecutionsDecide(cmd.Context(), env, o)
			}
			if len(args) > 1 {
				o.value = args[1]
			}
			if o.decline && o.value != "" {
				return cli.Usagef("VALUE conflicts with --decline")
			}
			return runExecutionsAnswer(cmd.Context(), env, o)
		},
	}
	c.Flags().StringVar(&o.question, "question", "", "`ID` of the question, if several are open")
	c.Flags().BoolVar(&o.decline, "decline", false, "decline to answer")
	return c
}

// readDecision reads CALL, a decision and the answer of the call.
func (o *answerOptions) readDecision(args []string) (err error) {
	if o.call, err = strconv.Atoi(args[0]); err != nil || o.call < 1 {
		return cli.Usagef("%.40q is not the number of a call", args[0])
	}
	if o.question != "" || o.decline {
		return cli.Usagef("--question and --decline are for questions, and conflict with CALL")
	}
	answer := ""
	if len(args) > 2 {
		answer = args[2]
	}
	o.decision, err = readDecision(args[1], answer)
	return err
}

// readDecision returns the decision with an outcome, and the answer of the call if it took effect.
func readDecision(outcome, answer string) (tool.Decision, error) {
	if !slices.Contains([]string{tool.TookEffect, tool.NoEffect, tool.Stop}, outcome) {
		return tool.Decision{}, cli.Usagef("%.40q is not a decision: it is %s, %s or %s", outcome, tool.TookEffect, tool.NoEffect,
			tool.Stop)
	}
	if answer != "" && outcome != tool.TookEffect {
		return tool.Decision{}, cli.Usagef("only a call that took effect (%s) has an answer", tool.TookEffect)
	}
	return tool.Decision{Outcome: outcome, Answer: journal.AsAnswer(answer)}, nil
}

func runExecutionsDecide(ctx context.Context, env *cli.Env, o answerOptions) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		if err := unfinished.Decide(ctx, d.Runner, h, o.id, o.call, o.decision); err != nil {
			return err
		}
		if o.decision.Outcome == tool.Stop {
			env.PrintDone("Execution %s stopped", o.id)
			return nil
		}
		env.PrintDone("Decision about call %d kept; `sandpiper executions resume %s` continues", o.call, o.id)
		return nil
	})
}

func runExecutionsAnswer(ctx context.Context, env *cli.Env, o answerOptions) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		open, err := live.Questions(ctx, h.Runs, o.id)
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
		case env.JSON || !cli.IsTerminal(env.Stdin) || !cli.IsTerminal(env.Stderr):
			return cli.Usagef("there is no terminal to ask at: pass VALUE or --decline")
		default:
			shown, err := d.Privacy.For(redact.Owner{Tenant: h.ID(), Vault: h.Vault}).RevealToPerson(ctx, q.Text)
			if err != nil {
				return err
			}
			if q.Text, _, _, err = shown.Content(); err != nil {
				return err
			}
			reply = result.Ask(ctx, env, q, nil)
		}
		if err := live.Answer(ctx, h.Runs, o.id, question.Answer{q.ID: reply}); err != nil {
			return err
		}
		cli.HintDaemon(env, d)
		env.PrintDone("Answer to question %s sent", q.ID)
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
		return question.Question{}, cli.Usagef("%d questions are open: choose one with --question, of %s", len(open),
			strings.Join(names, ", "))
	}
	return question.Question{}, cli.Usagef("there is no open question %.40q; there are %s", o.question, strings.Join(names, ", "))
}

// decisions are the texts that answer a question for a decision.
var decisions = []string{"yes", "y", "no", "n"}

// answerValue returns a value in JSON. Text is converted to the type of the only property of the
// question's schema.
func answerValue(q question.Question, text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	var form struct{ Properties map[string]result.Field }
	var value any = text
	if json.Unmarshal(q.Schema, &form) == nil && len(form.Properties) == 1 {
		for _, f := range form.Properties {
			if f.Type != "boolean" || slices.Contains(decisions, strings.ToLower(text)) { // other text is not a no
				value = f.Value(text)
			}
		}
	}
	b, err := json.Marshal(value)
	if err != nil {
		b = fmt.Appendf(nil, "%q", text)
	}
	return b
}
