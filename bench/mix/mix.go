// Package mix has the operations of load runs: executions, files, skills and sessions, each
// of which checks that the result belongs to it.
package mix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// Caller performs one operation at a time.
type Caller struct {
	*rig.Client
	Name   string // of its files, skills and sessions: other callers of the tenant have other names
	Skills string // prefix of the names of its skills, which are limited; "" means Name
	// NoSessions replaces operations in sessions by the first one of the mix.
	NoSessions bool

	session int // number of its current session
	steps   int // steps in that session
}

// sessionSteps is the number of steps in a session. Then another begins, and the
// program must end the unused one.
const sessionSteps = 25

// Operation is a kind of operation. Run returns an error unless the result is that of the
// operation: most contain the token, which is unique to it; n is its number.
type Operation struct {
	Name  string
	Share int // of a hundred
	Run   func(ctx context.Context, c *Caller, token string, n int64) error
}

// All lists all kinds of operations except calls of upstream servers.
var All = []Operation{
	{"sum", 50, runSum},
	{"session", 15, runSession},
	{"file", 12, runFile},
	{"exception", 10, runException},
	{"skill", 8, runSkill},
	{"output", 3, runOutput},
	{"memory", 1, runMemory},
	{"timeout", 1, runTimeout},
}

// Tenants lists the operations of a service: nothing that runs into a limit.
var Tenants = []Operation{
	{"sum", 40, runSum},
	{"call", 20, runCall},
	{"file", 15, runFile},
	{"session", 15, runSession},
	{"skill", 10, runSkill},
}

// LeaveSession makes the next operation in a session begin another one.
func (c *Caller) LeaveSession() { c.steps = sessionSteps }

// Run runs operation n of a mix and returns its name.
func (c *Caller) Run(ctx context.Context, mix []Operation, n int64) (name string, err error) {
	q := pick(mix, n)
	if q.Name == "session" && c.NoSessions {
		q = mix[0]
	}
	return q.Name, q.Run(ctx, c, fmt.Sprintf("%s-%d", c.Name, n), n)
}

// pick returns operation n of a mix. It is deterministic, so that all runs are equal, and
// distributes the kinds evenly.
func pick(mix []Operation, n int64) Operation {
	at, whole := 0, 0
	for _, q := range mix {
		whole += q.Share
	}
	place := int(n * 37 % int64(whole))
	for _, q := range mix {
		if at += q.Share; place < at {
			return q
		}
	}
	return mix[0]
}

// expect returns an error unless the execution succeeded with that value.
func expect(x rig.Execution, err error, want any) error {
	if err != nil {
		return err
	}
	wanted, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if !x.Success || string(x.Result) != string(wanted) {
		return fmt.Errorf("want %s, got %s %s %s", wanted, x.Result, x.ErrorType, x.Error)
	}
	return nil
}

// expectError returns an error unless the execution failed with that error type after
// it printed the token.
func expectError(x rig.Execution, err error, kind, token string) error {
	if err != nil {
		return err
	}
	if x.Success || x.ErrorType != kind || len(x.Output) != 1 || x.Output[0] != token {
		return fmt.Errorf("want %s after %q, got %q %s %s", kind, token, x.Output, x.ErrorType, x.Error)
	}
	return nil
}

// do calls a tool and returns its failure as an error.
func (c *Caller) do(ctx context.Context, tool string, args rig.Args) error {
	a, err := c.Call(ctx, tool, args)
	if err == nil && a.Failed {
		err = errors.New(a.Text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return nil
}

func runSum(ctx context.Context, c *Caller, _ string, n int64) error {
	x, err := c.Execute(ctx, fmt.Sprintf("%d + 1", n), nil)
	return expect(x, err, n+1)
}

// runCall calls a tool of the upstream server that rig.Upstream configures.
func runCall(ctx context.Context, c *Caller, _ string, _ int64) error {
	x, err := c.Execute(ctx, "from servers.upstream import get_version\nresult = 'version' in get_version()", nil)
	return expect(x, err, true)
}

// runSession counts in a live interpreter.
func runSession(ctx context.Context, c *Caller, token string, _ int64) error {
	if c.steps++; c.steps > sessionSteps {
		c.session, c.steps = c.session+1, 1
	}
	id := fmt.Sprintf("%s-%d", c.Name, c.session)
	code := "steps = globals().get('steps', 0) + 1\nresult = [token, steps]"
	x, err := c.Execute(ctx, code, rig.Args{"session_id": id, "context_vars": rig.Args{"token": token}})
	if err := expect(x, err, []any{token, c.steps}); err != nil {
		c.LeaveSession()
		return err
	}
	return nil
}

// runFile reads a tool's file in code, and the file of code with a tool.
func runFile(ctx context.Context, c *Caller, token string, n int64) error {
	in, out := fmt.Sprintf("%s/in%d", c.Name, n%10), fmt.Sprintf("%s/out%d", c.Name, n%10)
	if err := c.do(ctx, "write_workspace_file", rig.Args{"filename": in, "content": token}); err != nil {
		return err
	}
	x, err := c.Execute(ctx, fmt.Sprintf("text = read_file(%q)\nwrite_file(%q, text[::-1])\nresult = text", in, out), nil)
	if err := expect(x, err, token); err != nil {
		return err
	}
	a, err := c.Call(ctx, "read_workspace_file", rig.Args{"filename": out})
	if err != nil {
		return err
	}
	var file struct{ Content string }
	if err := a.Read(&file); err != nil || file.Content != reversed(token) {
		return fmt.Errorf("read: want %q, got %s", reversed(token), a.Text)
	}
	return nil
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

func runException(ctx context.Context, c *Caller, token string, _ int64) error {
	x, err := c.Execute(ctx, "print(token)\nraise ValueError(token)", rig.Args{"context_vars": rig.Args{"token": token}})
	return expectError(x, err, "ValueError", token)
}

// runSkill saves a skill under one of few names and uses it.
func runSkill(ctx context.Context, c *Caller, token string, n int64) error {
	name := fmt.Sprintf("%s_%d", cmp.Or(c.Skills, c.Name), n%4)
	code := fmt.Sprintf("def %s(): return %q", name, token)
	if err := c.do(ctx, "save_skill", rig.Args{"name": name, "code": code}); err != nil {
		return err
	}
	x, err := c.Execute(ctx, fmt.Sprintf("from skills import %s\n%[1]s()", name), nil)
	return expect(x, err, token)
}

// runOutput prints a megabyte, most of which is moved to a file, and deletes that.
func runOutput(ctx context.Context, c *Caller, token string, _ int64) error {
	vars := rig.Args{"token": token}
	x, err := c.Execute(ctx, "for i in range(10_000): print(token, i, 'x' * 90)\nresult = token", rig.Args{"context_vars": vars})
	if err := expect(x, err, token); err != nil {
		return err
	}
	if x.File == nil || len(x.Output) == 0 || !strings.HasPrefix(x.Output[0], token+" 0 ") {
		return fmt.Errorf("a megabyte of output returned %d items and file %v", len(x.Output), x.File)
	}
	vars["path"] = x.File.Path
	x, err = c.Execute(ctx, "lines = open(path).readlines()\nimport os; os.remove(path)\nresult = [len(lines), sum(token in l for l in "+
		"lines)]", rig.Args{"context_vars": vars})
	return expect(x, err, []int{10_000, 10_000})
}

func runMemory(ctx context.Context, c *Caller, token string, _ int64) error {
	x, err := c.Execute(ctx, "print(token)\nx = [bytes(1 << 20) for _ in range(1000)]",
		rig.Args{"memory_mb": 100, "context_vars": rig.Args{"token": token}})
	return expectError(x, err, "MemoryError", token)
}

// runTimeout alternates between sleeping and busy code.
func runTimeout(ctx context.Context, c *Caller, token string, n int64) error {
	code := "while True: pass"
	if n%2 == 0 {
		code = "import time; time.sleep(60)"
	}
	x, err := c.Execute(ctx, "print(token)\n"+code, rig.Args{"timeout_seconds": 3, "context_vars": rig.Args{"token": token}})
	return expectError(x, err, "timeout", token)
}
