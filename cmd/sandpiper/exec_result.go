package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// execute runs a request and returns its result.
func execute(ctx context.Context, env *app, d *daemon.Daemon, home *home.Home, req execution.Request) (reply.Result, error) {
	x, err := d.Runner.Start(ctx, home, req)
	if err != nil {
		return reply.Result{}, err
	}
	return waitForResult(ctx, env, d, home, x)
}

// waitForResult waits for the result of x, prints its progress and prompts for answers
// to its questions.
func waitForResult(ctx context.Context, env *app, d *daemon.Daemon, home *home.Home, x *execution.Execution) (reply.Result, error) {
	running := startRunning(env)
	defer func() { running.pause() }()
	for {
		e, err := x.Next(context.WithoutCancel(ctx)) // the end of ctx ends the execution, and its result reports that
		switch {
		case err != nil:
			return reply.Result{}, err
		case e.Progress != nil:
			running.show(*e.Progress)
		case e.Questions != nil:
			running.pause()
			for _, q := range e.Questions {
				closed := x.QuestionClosed(q.ID)
				answer := ask(ctx, env, q, closed)
				if _, err := d.Runner.Attach(ctx, home, x.ID(), question.Answer{q.ID: answer}); err != nil && fault.KindOf(err) != fault.NotFound {
					env.warn(fault.Message(err))
					x.RepeatQuestions()
				}
			}
			running.resume()
		case e.Done != nil:
			return *e.Done, nil
		}
	}
}

// outputPrinter returns a function that prints output immediately; nil with --json, where
// the result contains the output.
func outputPrinter(env *app) func([]byte) {
	if env.json {
		return nil
	}
	return func(item []byte) { env.printf("%s\n", visible(string(item))) }
}

// printResult prints a result. It returns an error that carries the exit code, or the cause
// of ctx without printing the failure; nil for success.
func printResult(ctx context.Context, env *app, r reply.Result) error {
	if env.json {
		r.Hint, r.Error, r.Traceback = completed(env, r.Hint), completed(env, r.Error), completed(env, r.Traceback)
		if r.Session != nil {
			r.Session.Note = completed(env, r.Session.Note)
		}
		if err := env.writeJSON(resultJSON{r.Answer(), r.Images}); err != nil {
			return err
		}
		return exitCodeOf(r)
	}
	explainMissingFile(env, &r)
	if r.Error == noInput {
		r.Error = withFlagNames(r.Error)
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
	return exitCodeOf(r)
}

// printSuspended describes an execution that waits without a worker.
func printSuspended(env *app, r reply.Result) {
	s := styleFor(env.stderr)
	fmt.Fprintln(env.stderr, s.yellow("suspended:"), visible(r.Error))
	env.hint(fmt.Sprintf("`sandpiper executions watch %[1]s` prints its result, `sandpiper executions signal %[1]s EVENT` sends a signal; a daemon must run", r.ExecutionID))
}

// resultJSON encodes a result as execute_code does, plus its images.
type resultJSON struct {
	body   any
	images []reply.Image
}

// MarshalJSON implements json.Marshaler.
func (w resultJSON) MarshalJSON() ([]byte, error) {
	body, err := encode(w.body)
	if err != nil || len(w.images) == 0 {
		return body, err
	}
	body = bytes.TrimSpace(body)
	images, err := json.Marshal(w.images)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `%s,"images":%s}`, body[:len(body)-1], images), nil
}

// exitCodeOf returns an error that carries the exit code of a result, nil for success.
func exitCodeOf(r reply.Result) error {
	switch {
	case r.Success():
		return nil
	case r.Status == sandbox.TimedOut || r.Status == sandbox.OverLimit || r.Limit != "":
		return exit(exitLimit)
	case r.Status == sandbox.Raised || r.Status == sandbox.Refused:
		return exit(exitRaised)
	default:
		return exit(exitFailed)
	}
}

// printNotes prints stderr, and lists the images and the warnings of guardrails.
func printNotes(env *app, r reply.Result) {
	s := styleFor(env.stderr)
	if r.Stderr != "" {
		fmt.Fprintln(env.stderr, strings.TrimRight(visible(r.Stderr), "\n"))
	}
	note := func(format string, args ...any) {
		fmt.Fprintln(env.stderr, s.dim(visible(fmt.Sprintf(format, args...))))
	}
	for _, img := range r.Images {
		note("%s", noteOfImage(env, img))
	}
	for _, path := range r.ImageFiles {
		note("[image: %s]", path)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(env.stderr, s.yellow("warning:"), visible(w))
	}
}

// printValue prints the result: a string without quotes, a table as Markdown, other values as
// indented JSON, and nothing for null.
func printValue(env *app, r reply.Result) error {
	var text string
	switch {
	case len(r.Value) == 0 || string(r.Value) == "null":
		return nil
	case json.Unmarshal(r.Value, &text) == nil:
		if text == "[picture]" && len(r.Images)+len(r.ImageFiles) > 0 { // printNotes has reported it
			return nil
		}
		env.printf("%s\n", visible(text))
		return nil
	}
	if text, ok := tableText(r.Value); ok {
		env.printf("%s\n", visible(text))
		return nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, r.Value, "", "  "); err != nil {
		return err
	}
	env.printf("%s\n", visible(b.String()))
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
	text := fmt.Sprintf("%s%s, %s", t.Table, count(t.Shape[0], "row"), count(t.Shape[1], "column"))
	if t.Next != "" {
		text += "; all of it: " + t.Next
	}
	return text, true
}

func printFailure(env *app, r reply.Result) {
	s := styleFor(env.stderr)
	message := r.Error
	if r.Status == sandbox.Raised && r.ErrorType != "" {
		message = strings.TrimSuffix(r.ErrorType+": "+r.Error, ": ")
	}
	if r.Status != sandbox.Raised {
		message = withFlagNames(message)
	}
	if trace := strings.TrimRight(r.Traceback, "\n"); trace != "" {
		if text, _, ok := strings.Cut(message, " (<code>, line "); ok && strings.HasSuffix(trace, text) {
			message = text // of a syntax error, whose line is in the traceback
		}
		if trace = withoutException(trace, message, r.ErrorType); trace != "" { // it is printed once, as the error
			fmt.Fprintln(env.stderr, strings.TrimRight(visible(trace), "\n"))
		}
	}
	fmt.Fprintln(env.stderr, s.red("error:"), visible(completed(env, message)))
	if r.Hint != "" {
		fmt.Fprintln(env.stderr, s.yellow("hint:"), visible(completed(env, withFlagNames(r.Hint))))
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
