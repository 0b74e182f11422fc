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

// command is a hook that is a program: an Event on stdin, a Decision on stdout.
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
	maxConcurrent = 8 // programs of hooks
)

// running holds a place for each program of a hook that runs, whoever's it is:
// what bounds them is the machine.
var slots = make(chan struct{}, maxConcurrent)

// Judge runs the program. Whatever comes of it, nothing of it is left.
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
		return Decision{}, unavailable(fmt.Sprintf("waited %s for a place, since %d others run", c.timeout, maxConcurrent))
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

// run returns what the program writes to stdout.
func (c command) run(ctx context.Context, in []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := &limitedBuffer{limit: maxAnswer, onExceeded: stop}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, io.Discard
	cmd.Env = environment()
	setProcessGroup(cmd)
	cmd.WaitDelay = 100 * time.Millisecond // for who left the group and holds a stream
	err := cmd.Run()
	killProcessGroup(cmd) // who it left behind
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case out.exceeded:
		return nil, unavailable(fmt.Sprintf("wrote more than %d bytes", maxAnswer))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, unavailable(fmt.Sprintf("did not answer within %s", c.timeout))
	case ctx.Err() != nil:
		return nil, unavailable("was stopped, since nobody waits for its answer any more")
	case exited:
		return nil, unavailable("ended with " + cmd.ProcessState.String())
	case err != nil && cmd.Process == nil:
		return nil, fault.Wrap(fault.Unavailable, err, "it could not be started")
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		// It need not read what it does not want to know.
		if _, unread := errors.AsType[*os.PathError](err); !unread {
			return nil, fault.Wrap(fault.Unavailable, err, "it could not be told of the event")
		}
	}
	return out.text, nil
}

// read understands one decision and nothing else. One that is said twice is none.
func parseDecision(out []byte) (Decision, error) {
	said, err := schema.Decode(out)
	word, ok := said["decision"].(string)
	reason, fits := said["reason"].(string)
	if err != nil || !ok || !fits && said["reason"] != nil {
		return Decision{}, fault.Wrap(fault.Unavailable, err, `it did not write {"decision": …, "reason": …} and nothing else to its stdout`)
	}
	return Decision{Action(word), reason}, nil
}

// known are the variables of the daemon that a hook gets. None carries a secret.
var inheritedEnv = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP", "PATHEXT", "COMSPEC"}

func environment() (env []string) {
	for _, name := range inheritedEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// bounded keeps what is written to it, up to a size.
type limitedBuffer struct {
	text       []byte
	limit      int
	exceeded   bool
	onExceeded func() // called when it is
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.limit {
		b.exceeded = true
		b.onExceeded()
		return 0, errors.New("too much")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
