package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Backends make their errors and reports with the following.

// NotNow returns the error of a backend that did not start. If it may start later on this machine, the error has no hint
// to change the installation.
func NotNow(err error) error {
	if !fault.Inconclusive(err) {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "the sandbox did not start in time").
		WithHint("the machine is busy: run it again in a moment; if that does not help, run `sandpiper doctor`")
}

// Tested returns a required layer that is enforced if a test of it passed.
func Tested(name string, passed bool, detail string, args ...any) Layer {
	l := Layer{Name: name, State: "enforced", Required: true, Detail: fmt.Sprintf(detail, args...)}
	if !passed {
		l.State = "failed"
	}
	return l
}

// Attempted describes the result of a system call by the name of its error, "" for success.
func Attempted(errName string) string {
	if errName == "" {
		return "succeeded"
	}
	return errName
}

// NoHost is a Host without methods, for code of a probe.
type NoHost struct{}

// Call implements Host.
func (NoHost) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("the probe makes no calls")
}

// Output implements Host.
func (NoHost) Output([]byte) error { return nil }

// MemoryProbe is code that allocates twice the variable limit in four processes, each well
// below it. It waits for a kill, which can take seconds on a busy machine.
const MemoryProbe = `
import os, time
for i in range(4):
    if os.fork() == 0:
        try:
            kept = b"x" * (limit // 2)
            time.sleep(15)
        finally:
            os._exit(0)
for i in range(150):
    if os.waitpid(-1, os.WNOHANG)[0]:
        break
    time.sleep(0.1)
`
