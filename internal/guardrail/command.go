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
	mostAnswer = 64 << 10
	mostAtOnce = 8 // programs of hooks
)

// running holds a place for each program of a hook that runs, whoever's it is:
// what bounds them is the machine.
var running = make(chan struct{}, mostAtOnce)

// Judge runs the program. Whatever comes of it, nothing of it is left.
func (c command) Judge(ctx context.Context, e Event) (Decision, error) {
	in, err := json.Marshal(e)
	if err != nil {
		return Decision{}, fmt.Errorf("write the event: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case running <- struct{}{}:
		defer func() { <-running }()
	case <-ctx.Done():
		return Decision{}, gone(fmt.Sprintf("waited %s for a place, since %d others run", c.timeout, mostAtOnce))
	}
	out, err := c.run(ctx, in)
	if err != nil {
		return Decision{}, err
	}
	return read(out)
}

func gone(what string) error {
	return fault.New(fault.Unavailable, "it %s", what)
}

// run returns what the program writes to stdout.
func (c command) run(ctx context.Context, in []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := &bounded{most: mostAnswer, full: stop}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, io.Discard
	cmd.Env = environment()
	alone(cmd)
	cmd.WaitDelay = 100 * time.Millisecond // for who left the group and holds a stream
	err := cmd.Run()
	end(cmd) // who it left behind
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case out.over:
		return nil, gone(fmt.Sprintf("wrote more than %d bytes", mostAnswer))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, gone(fmt.Sprintf("did not answer within %s", c.timeout))
	case ctx.Err() != nil:
		return nil, gone("was stopped, since nobody waits for its answer any more")
	case exited:
		return nil, gone("ended with " + cmd.ProcessState.String())
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
func read(out []byte) (Decision, error) {
	said, err := schema.Decode(out)
	word, ok := said["decision"].(string)
	reason, fits := said["reason"].(string)
	if err != nil || !ok || !fits && said["reason"] != nil {
		return Decision{}, fault.Wrap(fault.Unavailable, err, `it did not write {"decision": …, "reason": …} and nothing else to its stdout`)
	}
	return Decision{Say(word), reason}, nil
}

// known are the variables of the daemon that a hook gets. None carries a secret.
var known = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP", "PATHEXT", "COMSPEC"}

func environment() (env []string) {
	for _, name := range known {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// bounded keeps what is written to it, up to a size.
type bounded struct {
	text []byte
	most int
	over bool
	full func() // called when it is
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > b.most {
		b.over = true
		b.full()
		return 0, errors.New("too much")
	}
	b.text = append(b.text, p...)
	return len(p), nil
}
