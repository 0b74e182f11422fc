package vault

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/command"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// commandID is the ID of masters whose key a command prints. A wrapped key contains the fingerprint of the
// key that wrapped it, which distinguishes them.
const commandID = "command"

const (
	commandTimeout = 20 * time.Second
	maxPrinted     = 1 << 10 // bytes on stdout
	maxStderr      = 4 << 10 // bytes of stderr that are read
	shownStderr    = 300     // bytes of stderr in the log
)

// NewCommandMaster returns the Master whose key a program prints to stdout: 32 bytes in base64
// or hexadecimal. The program, args[0], runs when the key is first needed and, if it fails, at
// the next use again. The key then remains in memory. What a program that fails writes to stderr is for
// the operator: log has it, and errors do not.
func NewCommandMaster(args []string, log *slog.Logger) Master {
	return newCommandMaster(args, commandTimeout, log)
}

func newCommandMaster(args []string, timeout time.Duration, log *slog.Logger) Master {
	c := &keyCommand{args: args, timeout: timeout, log: log, running: make(mutex, 1)}
	return fetchedMaster{commandID, "the output of " + c.name(), c.get}
}

// keyCommand is a program that prints a key.
type keyCommand struct {
	args    []string
	timeout time.Duration
	log     *slog.Logger

	running mutex
	key     []byte    // nil before the first success
	failure error     // of the last run
	failed  time.Time // its end
}

// name returns the name of the program. Its arguments may be secret.
func (c *keyCommand) name() string { return filepath.Base(c.args[0]) }

// get returns the key. Those that waited for a run share its outcome.
func (c *keyCommand) get(ctx context.Context) ([]byte, error) {
	asked := time.Now()
	if err := c.running.lock(ctx); err != nil {
		return nil, err
	}
	defer c.running.unlock()
	if c.key != nil {
		return c.key, nil
	}
	if c.failed.After(asked) {
		return nil, c.failure
	}
	key, err := c.run(ctx)
	if err == nil {
		c.key = key
	} else if ctx.Err() == nil {
		c.failure, c.failed = err, time.Now()
	}
	return key, err
}

func (c *keyCommand) run(ctx context.Context) ([]byte, error) {
	var stderr messages
	out, err := command.Command{Args: c.args, Timeout: c.timeout, MaxOutput: maxPrinted, Stderr: &stderr}.Run(ctx, nil)
	key, ok := parseKey(string(out))
	var what string
	switch {
	case err != nil:
		what = fault.Message(err)
	case !ok:
		what = fmt.Sprintf("printed %d bytes instead of a key", len(out))
	default:
		return key, nil
	}
	c.log.Warn("the command that prints the master key failed", "command", c.name(), "reason", what, "stderr", stderr.shown())
	return nil, fault.Wrap(fault.Unavailable, errors.Unwrap(err), "the master key cannot be read: %s %s", c.name(), what).
		WithHint("the command must print %d bytes in base64 or %d hexadecimal digits, and nothing else, to stdout when the user that "+
			"runs Sandpiper runs it; no data is lost, and no other key is accepted",
			keySize, hex.EncodedLen(keySize))
}

// messages stores the first bytes that a program writes to stderr.
type messages struct {
	text    strings.Builder
	dropped bool
}

func (m *messages) Write(p []byte) (int, error) {
	fits := p[:min(len(p), maxStderr-m.text.Len())]
	m.dropped = m.dropped || len(fits) < len(p)
	m.text.Write(fits)
	return len(p), nil
}

// keyLike matches what may contain a key.
var keyLike = lazyregexp.New(`[0-9A-Za-z+/_=-]{32,}`)

// shown returns the beginning of the messages on one line, without what may contain a key.
func (m *messages) shown() string {
	text := m.text.String()
	if m.dropped { // the beginning of a key may be at the end
		text = text[:strings.LastIndexAny(text, " \t\n")+1]
	}
	return command.OneLine(keyLike().ReplaceAllString(text, "…"), shownStderr)
}
