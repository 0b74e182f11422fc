package guardrail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// command is a hook that is a program: it reads an Event on stdin and writes a
// Decision to stdout.
type command struct {
	args    []string
	timeout time.Duration
}

func newCommand(args []string, timeout time.Duration) command {
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	return command{args, timeout}
}

const (
	maxAnswer     = 64 << 10
	maxConcurrent = 8 // programs at the same time
)

// slots limits the hook programs of all tenants that run at the same time.
var slots = make(chan struct{}, maxConcurrent)

// Decide runs the program and kills all processes that it leaves.
func (c command) Decide(ctx context.Context, e Event) (Decision, error) {
	in, err := json.Marshal(e)
	if err != nil {
		return Decision{}, fmt.Errorf("write the event: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return Decision{}, unavailable(fmt.Sprintf("waited %s for one of the %d running hooks to end", c.timeout, maxConcurrent))
	}
	out, err := c.run(ctx, in)
	if err != nil {
		return Decision{}, err
	}
	return parseDecision(out)
}

func unavailable(what string) error {
	return fault.New(fault.Unavailable, "it %s", what)
}

// run returns the output of the program.
func (c command) run(ctx context.Context, in []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := &limitedBuffer{limit: maxAnswer, onExceeded: stop}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, io.Discard
	cmd.Env = environment()
	setProcessGroup(cmd)
	cmd.WaitDelay = 100 * time.Millisecond // a process outside the group may hold a stream open
	err := cmd.Run()
	killProcessGroup(cmd) // remaining processes
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case out.exceeded:
		return nil, unavailable(fmt.Sprintf("wrote more than %d bytes", maxAnswer))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, unavailable(fmt.Sprintf("did not answer within %s", c.timeout))
	case ctx.Err() != nil:
		return nil, unavailable("was stopped because the request was cancelled")
	case exited:
		return nil, unavailable("ended with " + cmd.ProcessState.String())
	case err != nil && cmd.Process == nil:
		return nil, fault.Wrap(fault.Unavailable, err, "it could not be started")
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		// The program need not read its input.
		if _, unread := errors.AsType[*os.PathError](err); !unread {
			return nil, fault.Wrap(fault.Unavailable, err, "its input could not be written")
		}
	}
	return out.text, nil
}

// parseDecision parses exactly one decision. Duplicate keys are an error.
func parseDecision(out []byte) (Decision, error) {
	answer, err := schema.Decode(out)
	word, ok := answer["decision"].(string)
	reason, fits := answer["reason"].(string)
	if err != nil || !ok || !fits && answer["reason"] != nil {
		return Decision{}, fault.Wrap(fault.Unavailable, err, `it must write {"decision": …, "reason": …} and nothing else to stdout`)
	}
	return Decision{Action(word), reason}, nil
}

// inheritedEnv lists the environment variables that a hook inherits. None carries a
// secret.
var inheritedEnv = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP", "PATHEXT", "COMSPEC"}

func environment() (env []string) {
	for _, name := range inheritedEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// limitedBuffer stores what is written to it, up to a limit.
type limitedBuffer struct {
	text       []byte
	limit      int
	exceeded   bool
	onExceeded func() // called when the limit is exceeded
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.limit {
		b.exceeded = true
		b.onExceeded()
		return 0, errors.New("output limit exceeded")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
