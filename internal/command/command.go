// Package command runs programs of the operator, such as hooks, with limits of their time and
// output. All processes of the group of a program are ended with it, also those that it leaves.
//
// Commands are values, and may run concurrently. The package does not run programs of servers
// (package upstream) or code (package sandbox), and does not limit memory.
package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Command is a program that runs without a shell.
type Command struct {
	Args      []string // program, searched on PATH unless it contains a slash, and arguments
	Env       []string // nil: the environment of this process
	Timeout   time.Duration
	MaxOutput int       // bytes on stdout
	Stderr    io.Writer // nil: discarded
}

// Run returns what the program writes to stdout. A nil in is no input. Errors are faults whose
// message continues a sentence about the program, and contains none of its output.
func (c Command) Run(ctx context.Context, in []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	out := &limitedBuffer{limit: c.MaxOutput, onExceeded: cancel}
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, out, c.Stderr
	if in != nil {
		cmd.Stdin = bytes.NewReader(in)
	}
	setProcessGroup(cmd)
	cmd.WaitDelay = 100 * time.Millisecond // a process outside the group may hold a stream open
	err := cmd.Run()
	killProcessGroup(cmd) // remaining processes
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case out.exceeded:
		return nil, fault.New(fault.Unavailable, "wrote more than %d bytes", c.MaxOutput)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fault.New(fault.Unavailable, "did not answer within %s", c.Timeout)
	case ctx.Err() != nil:
		return nil, fault.New(fault.Unavailable, "was stopped because the request was cancelled")
	case exited:
		return nil, fault.New(fault.Unavailable, "ended with %s", cmd.ProcessState)
	case err != nil && cmd.Process == nil:
		return nil, fault.Wrap(fault.Unavailable, err, "could not be started")
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		// The program need not read its input.
		if _, unread := errors.AsType[*os.PathError](err); !unread {
			return nil, fault.Wrap(fault.Unavailable, err, "could not be given its input")
		}
	}
	return out.text, nil
}

// OneLine returns at most limit bytes of text on one line, without control characters.
func OneLine(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
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
