package guardrail

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/command"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// commandHook is a hook that is a program: it reads an Event on stdin and writes a
// Decision to stdout.
type commandHook command.Command

func newCommandHook(args []string, timeout time.Duration) commandHook {
	return commandHook{Args: args, Env: environment(), Timeout: cmp.Or(timeout, 5*time.Second), MaxOutput: maxAnswer}
}

const (
	maxAnswer     = 64 << 10
	maxConcurrent = 8 // programs at the same time
)

// slots limits the hook programs of all tenants that run at the same time.
var slots = make(chan struct{}, maxConcurrent)

// Decide runs the program and kills all processes that it leaves.
func (c commandHook) Decide(ctx context.Context, e Event) (Decision, error) {
	in, err := json.Marshal(e)
	if err != nil {
		return Decision{}, fmt.Errorf("write the event: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return Decision{}, fault.New(fault.Unavailable, "it waited %s for one of the %d running hooks to end", c.Timeout, maxConcurrent)
	}
	out, err := command.Command(c).Run(ctx, in)
	if err != nil {
		return Decision{}, fault.Wrap(fault.Unavailable, errors.Unwrap(err), "it %s", fault.Message(err))
	}
	return parseDecision(out)
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

func environment() []string {
	env := []string{} // nil would be the environment of this process
	for _, name := range inheritedEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
