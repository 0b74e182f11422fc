package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// caller asks one question at a time.
type caller struct {
	*rig.Client
	name     string
	sessions bool // it may have some
	session  int  // the number of the one it has
	steps    int  // taken in it
}

// stepsEach is how long a session is. Then another begins, and the program has to
// end what nobody asks any more.
const stepsEach = 25

// question is a kind of question. Its answer must tell the token it was asked
// with, which no other question has; n is another number of its own.
type question struct {
	name  string
	share int // of a hundred
	ask   func(ctx context.Context, c *caller, token string, n int64) error
}

// mix is what is asked. The first stands in for what a caller cannot ask.
var mix = []question{
	{"sum", 50, askSum},
	{"session", 15, askSession},
	{"file", 12, askFile},
	{"exception", 10, askException},
	{"skill", 8, askSkill},
	{"output", 3, askOutput},
	{"memory", 1, askMemory},
	{"timeout", 1, askTimeout},
}

// pick chooses by the number of the question, so that every run asks the same. It
// strides through the hundred so that no kind comes in a row.
func pick(n int64) question {
	at, whole := 0, 0
	for _, q := range mix {
		whole += q.share
	}
	place := int(n * 37 % int64(whole))
	for _, q := range mix {
		if at += q.share; place < at {
			return q
		}
	}
	return mix[0]
}

// expect fails unless the execution ended well with that value.
func expect(x rig.Execution, err error, want any) error {
	if err != nil {
		return err
	}
	wanted, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if !x.Success || string(x.Result) != string(wanted) {
		return fmt.Errorf("want %s, was answered %s %s %s", wanted, x.Result, x.ErrorType, x.Error)
	}
	return nil
}

// fails fails unless the execution ended with that kind of error, after printing
// the token.
func fails(x rig.Execution, err error, kind, token string) error {
	if err != nil {
		return err
	}
	if x.Success || x.ErrorType != kind || len(x.Output) != 1 || x.Output[0] != token {
		return fmt.Errorf("want %s after %q, was answered %q %s %s", kind, token, x.Output, x.ErrorType, x.Error)
	}
	return nil
}

func askSum(ctx context.Context, c *caller, _ string, n int64) error {
	x, err := c.Execute(ctx, fmt.Sprintf("%d + 1", n), nil)
	return expect(x, err, n+1)
}

// askSession counts in a living interpreter.
func askSession(ctx context.Context, c *caller, token string, _ int64) error {
	if c.steps++; c.steps > stepsEach {
		c.session, c.steps = c.session+1, 1
	}
	id := fmt.Sprintf("%s-%d", c.name, c.session)
	code := "steps = globals().get('steps', 0) + 1\nresult = [token, steps]"
	x, err := c.Execute(ctx, code, rig.Args{"session_id": id, "context_vars": rig.Args{"token": token}})
	if err := expect(x, err, []any{token, c.steps}); err != nil {
		c.steps = stepsEach // whatever it was, the next step begins anew
		return err
	}
	return nil
}

// askFile has code read what a tool wrote, and a tool what code wrote.
func askFile(ctx context.Context, c *caller, token string, n int64) error {
	in, out := fmt.Sprintf("%s/in%d", c.name, n%10), fmt.Sprintf("%s/out%d", c.name, n%10)
	if a, err := c.Call(ctx, "write_workspace_file", rig.Args{"filename": in, "content": token}); err != nil || a.Failed {
		return fmt.Errorf("write: %w %s", err, a.Text)
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
		return fmt.Errorf("read: want %q, was answered %s", reversed(token), a.Text)
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

func askException(ctx context.Context, c *caller, token string, _ int64) error {
	x, err := c.Execute(ctx, "print(token)\nraise ValueError(token)", rig.Args{"context_vars": rig.Args{"token": token}})
	return fails(x, err, "ValueError", token)
}

// askSkill saves a skill under one of few names and uses it.
func askSkill(ctx context.Context, c *caller, token string, n int64) error {
	name := fmt.Sprintf("%s_%d", c.name, n%5)
	code := fmt.Sprintf("def %s(): return %q", name, token)
	if a, err := c.Call(ctx, "save_skill", rig.Args{"name": name, "code": code}); err != nil || a.Failed {
		return fmt.Errorf("save: %w %s", err, a.Text)
	}
	x, err := c.Execute(ctx, fmt.Sprintf("from skills import %s\n%[1]s()", name), nil)
	return expect(x, err, token)
}

// askOutput prints a megabyte, of which all but the beginning is kept in a file,
// and deletes that.
func askOutput(ctx context.Context, c *caller, token string, _ int64) error {
	vars := rig.Args{"token": token}
	x, err := c.Execute(ctx, "for i in range(10_000): print(token, i, 'x' * 90)\nresult = token", rig.Args{"context_vars": vars})
	if err := expect(x, err, token); err != nil {
		return err
	}
	if x.File == nil || len(x.Output) == 0 || !strings.HasPrefix(x.Output[0], token+" 0 ") {
		return fmt.Errorf("a megabyte of output was answered with %d items and file %v", len(x.Output), x.File)
	}
	vars["path"] = x.File.Path
	x, err = c.Execute(ctx, "lines = open(path).readlines()\nimport os; os.remove(path)\nresult = [len(lines), sum(token in l for l in lines)]", rig.Args{"context_vars": vars})
	return expect(x, err, []int{10_000, 10_000})
}

func askMemory(ctx context.Context, c *caller, token string, _ int64) error {
	x, err := c.Execute(ctx, "print(token)\nx = [bytes(1 << 20) for _ in range(1000)]", rig.Args{"memory_mb": 100, "context_vars": rig.Args{"token": token}})
	return fails(x, err, "MemoryError", token)
}

// askTimeout alternates between code that waits and code that is busy.
func askTimeout(ctx context.Context, c *caller, token string, n int64) error {
	code := "while True: pass"
	if n%2 == 0 {
		code = "import time; time.sleep(60)"
	}
	x, err := c.Execute(ctx, "print(token)\n"+code, rig.Args{"timeout_seconds": 3, "context_vars": rig.Args{"token": token}})
	return fails(x, err, "timeout", token)
}
