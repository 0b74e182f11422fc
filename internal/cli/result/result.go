// Package result runs code for a command: it shows progress and output, asks the person for answers, and
// prints the result.
package result

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Execute runs a request and returns its result.
func Execute(ctx context.Context, env *cli.Env, d *daemon.Daemon, home *home.Home, req execution.Request) (reply.Result, error) {
	x, err := d.Runner.Start(ctx, home, req)
	if err != nil {
		return reply.Result{}, err
	}
	return Wait(ctx, env, d, home, x)
}

// Wait waits for the result of x, prints its progress and prompts for answers
// to its questions.
func Wait(ctx context.Context, env *cli.Env, d *daemon.Daemon, home *home.Home, x *execution.Execution) (reply.Result, error) {
	running := cli.StartRunning(env)
	defer func() { running.Pause() }()
	for {
		e, err := x.Next(context.WithoutCancel(ctx)) // the end of ctx ends the execution, and its result reports that
		switch {
		case err != nil:
			return reply.Result{}, err
		case e.Progress != nil:
			running.Show(*e.Progress)
		case e.Questions != nil:
			running.Pause()
			for _, q := range e.Questions {
				closed := x.QuestionClosed(q.ID)
				answer := Ask(ctx, env, q, closed)
				if _, err := d.Runner.Attach(ctx, home, x.ID(),
					question.Answer{q.ID: answer}); err != nil && fault.KindOf(err) != fault.NotFound {
					env.Warn(fault.Message(err))
					x.RepeatQuestions()
				}
			}
			running.Resume()
		case e.Done != nil:
			return *e.Done, nil
		}
	}
}

// Printer returns a function that prints output immediately; nil with --json, where
// the result contains the output.
func Printer(env *cli.Env) func([]byte) {
	if env.JSON {
		return nil
	}
	return func(item []byte) { env.Printf("%s\n", cli.Visible(string(item))) }
}

// Print prints a result. It returns an error that carries the exit code, or the cause
// of ctx without printing the failure; nil for success.
func Print(ctx context.Context, env *cli.Env, r reply.Result) error {
	if env.JSON {
		r.Hint, r.Error, r.Traceback = cli.Completed(env, r.Hint), cli.Completed(env, r.Error), cli.Completed(env, r.Traceback)
		if r.Session != nil {
			r.Session.Note = cli.Completed(env, r.Session.Note)
		}
		if err := env.WriteJSON(JSON{r}); err != nil {
			return err
		}
		return ExitCode(r)
	}
	explainMissingFile(env, &r)
	if r.Error == noInput {
		r.Error = cli.WithFlagNames(r.Error)
	}
	printNotes(env, r)
	printPlan(env, r)
	if r.Success() {
		return printValue(env, r)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.ErrorType == execution.TypeSuspended {
		printSuspended(env, r)
	} else {
		printFailure(env, r)
	}
	return ExitCode(r)
}

// printSuspended describes an execution that waits without a worker.
func printSuspended(env *cli.Env, r reply.Result) {
	s := cli.StyleFor(env.Stderr)
	fmt.Fprintln(env.Stderr, s.Yellow("suspended:"), cli.Visible(r.Error))
	env.Hint(fmt.Sprintf("`sandpiper executions watch %[1]s` prints its result, `sandpiper executions signal %[1]s EVENT` sends a "+
		"signal; a daemon must run", r.ExecutionID))
}

// JSON is a result that is encoded as execute_code does, plus its images.
type JSON struct{ reply.Result }

// MarshalJSON implements json.Marshaler.
func (r JSON) MarshalJSON() ([]byte, error) {
	body, err := cli.EncodeJSON(r.Answer())
	if err != nil || len(r.Images) == 0 {
		return body, err
	}
	body = bytes.TrimSpace(body)
	images, err := json.Marshal(r.Images)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `%s,"images":%s}`, body[:len(body)-1], images), nil
}

// ExitCode returns an error that carries the exit code of a result, nil for success.
func ExitCode(r reply.Result) error {
	switch {
	case r.Success():
		return nil
	case r.Status == sandbox.TimedOut || r.Status == sandbox.OverLimit || r.Limit != "":
		return cli.Exit(cli.ExitLimit)
	case r.Status == sandbox.Raised || r.Status == sandbox.Refused:
		return cli.Exit(cli.ExitRaised)
	default:
		return cli.Exit(cli.ExitFailed)
	}
}

// printNotes prints stderr, and lists the images and the warnings of guardrails.
func printNotes(env *cli.Env, r reply.Result) {
	s := cli.StyleFor(env.Stderr)
	if r.Stderr != "" {
		fmt.Fprintln(env.Stderr, strings.TrimRight(cli.Visible(r.Stderr), "\n"))
	}
	note := func(format string, args ...any) {
		fmt.Fprintln(env.Stderr, s.Dim(cli.Visible(fmt.Sprintf(format, args...))))
	}
	for _, img := range r.Images {
		note("%s", noteOfImage(env, img))
	}
	for _, path := range r.ImageFiles {
		note("[image: %s]", path)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(env.Stderr, s.Yellow("warning:"), cli.Visible(w))
	}
}

// printValue prints the result: a string without quotes, a table as Markdown, other values as
// indented JSON, and nothing for null.
func printValue(env *cli.Env, r reply.Result) error {
	var text string
	switch {
	case len(r.Value) == 0 || string(r.Value) == "null":
		return nil
	case json.Unmarshal(r.Value, &text) == nil:
		if text == "[picture]" && len(r.Images)+len(r.ImageFiles) > 0 { // printNotes has reported it
			return nil
		}
		env.Printf("%s\n", cli.Visible(text))
		return nil
	}
	if text, ok := tableText(r.Value); ok {
		env.Printf("%s\n", cli.Visible(text))
		return nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, r.Value, "", "  "); err != nil {
		return err
	}
	env.Printf("%s\n", cli.Visible(b.String()))
	return nil
}

// tableText returns the text of a described table, with its shape and the code that reads all of it.
func tableText(value json.RawMessage) (string, bool) {
	var t struct {
		Table string   `json:"table"`
		Shape []int    `json:"shape"`
		Types []string `json:"types"`
		Path  string   `json:"path"`
		Next  string   `json:"next"`
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(&t) != nil || t.Table == "" || len(t.Shape) != 2 || t.Types == nil {
		return "", false
	}
	text := fmt.Sprintf("%s%s, %s", t.Table, cli.Count(t.Shape[0], "row"), cli.Count(t.Shape[1], "column"))
	if t.Next != "" {
		text += "; all of it: " + t.Next
	}
	return text, true
}

func printFailure(env *cli.Env, r reply.Result) {
	s := cli.StyleFor(env.Stderr)
	message := r.Error
	if r.Status == sandbox.Raised && r.ErrorType != "" {
		message = strings.TrimSuffix(r.ErrorType+": "+r.Error, ": ")
	}
	if r.Status != sandbox.Raised {
		message = cli.WithFlagNames(message)
	}
	if trace := strings.TrimRight(r.Traceback, "\n"); trace != "" {
		if text, _, ok := strings.Cut(message, " (<code>, line "); ok && strings.HasSuffix(trace, text) {
			message = text // of a syntax error, whose line is in the traceback
		}
		if trace = withoutException(trace, message, r.ErrorType); trace != "" { // it is printed once, as the error
			fmt.Fprintln(env.Stderr, strings.TrimRight(cli.Visible(trace), "\n"))
		}
	}
	fmt.Fprintln(env.Stderr, s.Red("error:"), cli.Visible(cli.Completed(env, message)))
	if r.Hint != "" {
		fmt.Fprintln(env.Stderr, s.Yellow("hint:"), cli.Visible(cli.Completed(env, cli.WithFlagNames(r.Hint))))
	}
}

// withoutException removes the exception from the end of a traceback, where the name of its type
// has its module. Its message there can differ from the given one, which replaces that of an exit or
// a limit; then it must be one line.
func withoutException(trace, message, errorType string) string {
	before, ok := strings.CutSuffix(trace, message)
	start := strings.LastIndexByte(before, '\n') + 1
	module := before[start:]
	if !ok {
		name, _, _ := strings.Cut(before[start:], ": ")
		module, ok = strings.CutSuffix(name, errorType)
	}
	if ok && (module == "" || strings.HasSuffix(module, ".") && !strings.ContainsAny(module, " \t")) {
		return before[:start]
	}
	return trace
}
