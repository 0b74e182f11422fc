package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

type execOptions struct {
	script  string // file with the code, or "-" for stdin
	code    string // -c
	inline  bool   // -c was given
	timeout time.Duration
	memory  int
	vars    string   // --context
	files   []string // --file
	session string   // --session
	dryRun  bool     // --dry-run
}

func (a *app) execCommand() *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use:   "exec [FILE|-] [-c CODE]",
		Short: "Run Python in the sandbox",
		Long: `Exec runs Python code, from a file, from standard input or from -c, and prints
what it prints and its result: the variable result, or the last expression.

The code sees one directory, /workspace, which persists. --file copies a file of
yours into it first; see also sandpiper files.

With --dry-run the calls of tools that may change something are not made: the
command prints them as a plan. Calls of tools that are known to read are made.

With --session the run is logged as a task of that session. The interpreter ends
with the command, so variables do not persist from one exec to the next: the log
and the files do, and sandpiper session resume rebuilds variables from the log.

Exit codes: 0 the code ran, 1 it could not be run, 2 the command line was wrong,
3 the code raised an exception, 4 it hit a limit.`,
		Example: `  sandpiper exec -c '1 + 1'
  sandpiper exec report.py
  echo 'result = [x * x for x in range(5)]' | sandpiper exec -
  sandpiper exec --file orders.json -c '
  orders = json.loads(read_file("orders.json"))
  result = aggregate_stats(orders, ["amount"])'
  sandpiper exec --context '{"name": "Ada"}' -c 'f"Hello {name}"'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.inline = cmd.Flags().Changed("code")
			if cmd.Flags().Changed("timeout") && o.timeout == 0 || cmd.Flags().Changed("memory") && o.memory == 0 {
				return usagef("--timeout and --memory must be more than 0; without them the defaults hold")
			}
			if len(args) > 0 {
				o.script = args[0]
			}
			return a.runExec(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVarP(&o.code, "code", "c", "", "run `CODE`")
	f.DurationVar(&o.timeout, "timeout", 0, "stop the code after this time (default 30s)")
	f.IntVar(&o.memory, "memory", 0, "memory in `MB` that the code may use (default 500)")
	f.StringVar(&o.vars, "context", "", "`JSON` object whose keys become variables")
	f.StringVar(&o.session, "session", "", "log the run as a task of session `ID`")
	f.BoolVar(&o.dryRun, "dry-run", false, "plan the calls of tools that may change something, and make none of them")
	f.StringArrayVar(&o.files, "file", nil, "copy `PATH` into the workspace first (may be repeated)")
	return a.ofTenant(c)
}

func (a *app) runExec(ctx context.Context, o execOptions) error {
	req, err := a.request(o)
	if err != nil {
		return err
	}
	return a.ready(ctx, a.watch(), func(d *daemon.Daemon, home *home.Home) error {
		if err := a.bring(ctx, home, o.files); err != nil {
			return err
		}
		result, err := a.execute(ctx, d, home, req)
		if err != nil {
			return err
		}
		return a.finish(ctx, result)
	})
}

// ready calls use with a daemon that is about to run code, and the open home of the
// tenant that the command line names. What code prints goes to output as it comes.
func (a *app) ready(ctx context.Context, output func([]byte), use func(*daemon.Daemon, *home.Home) error) error {
	d, err := a.daemon(options{output: output, quiet: true})
	if err != nil {
		return err
	}
	defer a.close(d)
	d.Warm()
	home, err := a.acquire(ctx, d)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	return use(d, home)
}

// close closes a daemon that ran code, and says what could not be kept of that.
func (a *app) close(d *daemon.Daemon) {
	if err := d.Close(); err != nil {
		a.warn(errorText(err))
	}
}

// request makes the execution's request, without opening anything of ours.
func (a *app) request(o execOptions) (execution.Request, error) {
	code, err := a.code(o)
	if err != nil {
		return execution.Request{}, err
	}
	req := execution.Request{Code: code, Timeout: o.timeout, MemoryMB: o.memory, SessionID: o.session, DryRun: o.dryRun}
	if o.vars != "" {
		if !json.Valid([]byte(o.vars)) {
			return req, usagef("--context %.60q is not JSON; it must be an object such as '{\"name\": 1}'", o.vars)
		}
		req.Vars = json.RawMessage(o.vars)
	}
	return req, nil
}

// code finds the code: exactly one of a file, standard input and -c.
func (a *app) code(o execOptions) (string, error) {
	switch {
	case o.inline && o.script != "":
		return "", usagef("there are both %q and -c; give the code once", o.script)
	case o.inline:
		return o.code, nil
	case o.script == "" && isTerminal(a.stdin):
		return "", usagef("there is no code: name a file, pass it with -c, or pipe it in")
	case o.script == "" || o.script == "-":
		return readCode(a.stdin, "standard input")
	}
	f, err := os.Open(o.script)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readCode(f, o.script)
}

// readCode reads code of at most what an execution takes: a file of gigabytes
// named by mistake is refused, not read.
func readCode(r io.Reader, name string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, execution.MaxCodeBytes+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), nil
}

// bring copies files of the person's into the workspace.
func (a *app) bring(ctx context.Context, home *home.Home, files []string) error {
	for _, path := range files {
		if path == "-" {
			return usagef("--file takes a path; for standard input use sandpiper files put - NAME first")
		}
		if _, err := a.put(ctx, home, path, filepath.Base(path)); err != nil {
			return err
		}
	}
	return nil
}

// execute runs req to its end.
func (a *app) execute(ctx context.Context, d *daemon.Daemon, home *home.Home, req execution.Request) (reply.Result, error) {
	x, err := d.Runner.Start(ctx, home, req)
	if err != nil {
		return reply.Result{}, err
	}
	return a.follow(ctx, d, home, x)
}

// follow waits for the end of x, and asks meanwhile what that asks.
func (a *app) follow(ctx context.Context, d *daemon.Daemon, home *home.Home, x *execution.Execution) (reply.Result, error) {
	progress := a.progress()
	for {
		e, err := x.Next(context.WithoutCancel(ctx)) // the code ends with ctx, and says so
		switch {
		case err != nil:
			return reply.Result{}, err
		case e.Progress != nil:
			progress(*e.Progress)
		case e.Questions != nil:
			for _, q := range e.Questions {
				closed := x.QuestionClosed(q.ID)
				reply := a.ask(ctx, q, closed)
				if _, err := d.Runner.Attach(ctx, home, x.ID(), question.Answer{q.ID: reply}); err != nil && fault.KindOf(err) != fault.NotFound {
					a.warn(fault.Message(err))
					x.RepeatQuestions()
				}
			}
		case e.Done != nil:
			return *e.Done, nil
		}
	}
}

// watch returns what shows output as it comes; nil where JSON is asked for,
// which holds it all.
func (a *app) watch() func([]byte) {
	if a.json {
		return nil
	}
	return func(item []byte) { a.printf("%s\n", visible(string(item))) }
}

// progress shows what code says of itself, on a terminal.
func (a *app) progress() func(execution.Progress) {
	if a.json || !isTerminal(a.stderr) {
		return func(execution.Progress) {}
	}
	s := styleFor(a.stderr)
	return func(p execution.Progress) {
		share := fmt.Sprintf("%g", p.Done)
		if p.Total > 0 {
			share = fmt.Sprintf("%.0f%%", 100*p.Done/p.Total)
		}
		fmt.Fprintln(a.stderr, s.dim(strings.TrimSpace(share+" "+visibleName(p.Message))))
	}
}

// finish prints the result and chooses the exit code.
func (a *app) finish(ctx context.Context, r reply.Result) error {
	if a.json {
		if err := a.writeJSON(answer{r.Answer(), r.Images}); err != nil {
			return err
		}
		return outcome(r)
	}
	a.printAside(r)
	a.printPlan(r)
	if r.Success() {
		return a.printValue(r)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.printFailure(r)
	return outcome(r)
}

// answer is the answer of the tool execute_code, with the images inside it.
type answer struct {
	body   any
	images []reply.Image
}

// MarshalJSON implements json.Marshaler.
func (w answer) MarshalJSON() ([]byte, error) {
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

// outcome is the exit code for a result.
func outcome(r reply.Result) error {
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

// printAside tells of what a terminal cannot show, and what guardrails found.
func (a *app) printAside(r reply.Result) {
	s := styleFor(a.stderr)
	note := func(format string, args ...any) {
		fmt.Fprintln(a.stderr, s.dim(visible(fmt.Sprintf(format, args...))))
	}
	for _, img := range r.Images {
		note("[image: %s, %d bytes; --json has it]", img.MIME, len(img.Data))
	}
	for _, path := range r.ImageFiles {
		note("[image: %s]", path)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(a.stderr, s.yellow("warning:"), visible(w))
	}
}

// printValue writes a string as it is, anything else as readable JSON, and
// nothing where there is nothing.
func (a *app) printValue(r reply.Result) error {
	var text string
	switch {
	case len(r.Value) == 0 || string(r.Value) == "null":
		return nil
	case json.Unmarshal(r.Value, &text) == nil:
		a.printf("%s\n", visible(text))
		return nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, r.Value, "", "  "); err != nil {
		return err
	}
	a.printf("%s\n", visible(b.String()))
	return nil
}

func (a *app) printFailure(r reply.Result) {
	s := styleFor(a.stderr)
	if r.Stderr != "" {
		fmt.Fprintln(a.stderr, strings.TrimRight(visible(r.Stderr), "\n"))
	}
	if r.Traceback != "" {
		fmt.Fprintln(a.stderr, strings.TrimRight(visible(r.Traceback), "\n"))
	}
	message := r.Error
	if r.Status == sandbox.Raised {
		message = strings.TrimSuffix(r.ErrorType+": "+r.Error, ": ")
	}
	if r.Status != sandbox.Raised {
		message = withFlagNames(message)
	}
	fmt.Fprintln(a.stderr, s.red("error:"), visible(message))
	if r.Hint != "" {
		fmt.Fprintln(a.stderr, s.yellow("hint:"), visible(withFlagNames(r.Hint)))
	}
}
