package main

import (
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
)

// newRequest creates the request of an execution. It needs no daemon, so that wrong
// usage is reported before one is opened.
func newRequest(env *cli.Env, o execOptions) (execution.Request, error) {
	code, err := o.source.Read(env)
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

// execOptions are the flags of exec and of other commands that run code.
type execOptions struct {
	source  cli.Code
	timeout time.Duration
	memory  int
	vars    string   // --context
	files   []string // --file
	session string   // --session
	dryRun  bool     // --dry-run

	repeatCalls bool // --repeat-calls
}
