package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
)

// newRequest creates the request of an execution. It needs no daemon, so that wrong
// usage is reported before one is opened.
func newRequest(env *cli.Env, o execOptions) (execution.Request, error) {
	code, err := loadCode(env, o)
	if err != nil {
		return execution.Request{}, err
	}
	req := execution.Request{
		Code:      code,
		Timeout:   o.timeout,
		MemoryMB:  o.memory,
		SessionID: o.session,
		DryRun:    o.dryRun,
		Commands:  cli.CommandsOf(env),
	}
	if o.vars != "" {
		if !json.Valid([]byte(o.vars)) {
			return req, cli.Usagef("--context %.60q is not JSON; it must be an object such as '{\"name\": 1}'", o.vars)
		}
		req.Vars = json.RawMessage(o.vars)
	}
	return req, nil
}

// loadCode reads the code from a file, standard input or -c.
func loadCode(env *cli.Env, o execOptions) (string, error) {
	switch {
	case o.inline && o.script != "":
		return "", cli.Usagef("both %q and -c were given; use one of them", o.script)
	case o.inline:
		return o.code, nil
	case o.script == "" && cli.IsTerminal(env.Stdin):
		return "", cli.Usagef("no code was given: pass a file, -c or standard input")
	case o.script == "" || o.script == "-":
		return readCode(env.Stdin, "standard input")
	}
	f, err := cli.OpenInput(o.script)
	if errors.Is(err, fs.ErrNotExist) && filepath.Ext(o.script) != ".py" {
		return "", fmt.Errorf("%w; to run code use -c", err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readCode(f, o.script)
}

// readCode reads code without its byte order mark. It reads at most one byte more than
// an execution accepts: of a larger file it does not read the rest, and the execution
// rejects it.
func readCode(r io.Reader, name string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(pycode.MaxBytes+1+len(cli.ByteOrderMark))))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	data = bytes.TrimPrefix(data, cli.ByteOrderMark)
	return string(data[:min(len(data), pycode.MaxBytes+1)]), nil
}

// execOptions are the flags of exec and of other commands that read code.
type execOptions struct {
	script  string // file with the code; "" and "-" mean standard input
	code    string // -c
	inline  bool   // -c was given
	timeout time.Duration
	memory  int
	vars    string   // --context
	files   []string // --file
	session string   // --session
	dryRun  bool     // --dry-run

	repeatCalls bool // --repeat-calls
}
