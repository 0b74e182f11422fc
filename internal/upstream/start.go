package upstream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
)

// start connects within StartTimeout. Its error is the reason to display.
func (v *server) start(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, v.StartTimeout, errTimeout)
	defer cancel()
	c, err := v.connect(ctx)
	if err != nil {
		return nil, err
	}
	if !v.set.spawn(func(context.Context) { v.watch(c) }) {
		v.closeConnection(c)
		return nil, v.shuttingDown()
	}
	return c, nil
}

func (v *server) connect(ctx context.Context) (*connection, error) {
	if v.OpenAPI != nil {
		return v.openDocument(ctx)
	}
	if v.Local != nil {
		return v.connectLocal(ctx)
	}
	if v.Network != nil {
		return v.openNetwork(), nil
	}
	env, err := v.resolveValues(ctx, "environment variable", v.Env)
	if err != nil {
		return nil, err
	}
	headers, err := v.resolveValues(ctx, "header", v.Headers)
	if err != nil {
		return nil, err
	}
	at, err := v.resolveServer(ctx)
	if err != nil {
		return nil, err
	}
	if v.Command != "" {
		return v.startProgram(ctx, at, env)
	}
	tokens, err := v.tokenSource(ctx, at.URL)
	if err != nil {
		return nil, err
	}
	return v.connectHTTP(ctx, mcp.Address{URL: at.URL, Headers: headers, Tokens: tokens})
}

// resolveServer returns the configuration with the command, arguments and URL resolved.
func (v *server) resolveServer(ctx context.Context) (Server, error) {
	at := v.Server
	at.Args = slices.Clone(v.Args)
	parts := map[string]*string{"command": &at.Command, "url": &at.URL}
	for i := range at.Args {
		parts["argument "+strconv.Itoa(i+1)] = &at.Args[i]
	}
	for _, what := range slices.Sorted(maps.Keys(parts)) {
		resolve := v.set.cfg.Resolve
		if what == "url" {
			resolve = v.resolveURL
		}
		value, err := resolve(ctx, *parts[what])
		if err != nil {
			return at, v.unresolvedValue("setting", what, err)
		}
		if value != *parts[what] && what != "command" {
			v.redact.addSecret(value)
		}
		*parts[what] = value
	}
	return at, validate(at)
}

// resolveValues resolves the values of a map.
func (v *server) resolveValues(ctx context.Context, what string, values map[string]string) (map[string]string, error) {
	resolved := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, err := v.set.cfg.Resolve(ctx, values[name])
		if err != nil {
			return nil, v.unresolvedValue(what, name, err)
		}
		if value != values[name] || isSecretName(name) {
			v.redact.addSecret(value)
			if what == "header" {
				v.redact.addSentHeader(value)
			}
		}
		resolved[name] = value
	}
	return resolved, nil
}

// startProgram starts the program. One that exits on server/discover is restarted with
// initialize first.
func (v *server) startProgram(ctx context.Context, at Server, env map[string]string) (*connection, error) {
	c, err := v.launch(ctx, at, env)
	if errors.Is(err, mcp.ErrClosedEarly) && !v.initializeFirst {
		v.initializeFirst = true
		if c, err = v.launch(ctx, at, env); err != nil {
			v.initializeFirst = false
		}
	}
	if err == nil {
		v.initializeFirst = c.session.Info().Legacy
		return c, nil
	}
	return nil, v.startError(ctx, c, err)
}

// redactStderr removes secrets and personal data from stderr.
func (v *server) redactStderr(text string) string {
	text = v.redact.text(text)
	if v.set.cfg.Redact != nil {
		text = v.set.cfg.Redact(text)
	}
	return text
}

// launch starts the program and connects to it. On an error it also returns the
// connection if the program ran, for its exit status and stderr.
func (v *server) launch(ctx context.Context, at Server, env map[string]string) (*connection, error) {
	program, err := process.Start(process.Config{Command: at.Command, Args: at.Args, Env: env, Dir: v.Dir, Redact: v.redactStderr, Log: v.set.cfg.Log})
	if err != nil {
		return nil, err
	}
	c := &connection{child: program}
	c.session, err = mcp.OpenStreams(ctx, program.Stdout, program.Stdin, v.mcpConfig())
	if err != nil {
		program.Stop()
		v.mu.Lock()
		v.stderr = program.StderrLines()
		v.mu.Unlock()
	}
	return c, err
}

// connectLocal connects to a server in this process.
func (v *server) connectLocal(ctx context.Context) (*connection, error) {
	streams, err := v.Local.Connect(ctx)
	if err != nil {
		return nil, v.startError(ctx, nil, err)
	}
	session, err := mcp.OpenStreams(ctx, streams, streams, v.mcpConfig())
	if err != nil {
		_ = streams.Close()
		return nil, v.startError(ctx, nil, err)
	}
	return &connection{session: session, local: streams}, nil
}

// connectHTTP connects over streamable HTTP. If the first message is refused with status
// 400, 404 or 405, it falls back to the SSE transport of 2024-11-05.
func (v *server) connectHTTP(ctx context.Context, a mcp.Address) (*connection, error) {
	a.Events = v.Transport == "sse" || v.needsSSE(false)
	session, err := mcp.OpenHTTP(ctx, a, v.mcpConfig())
	if status, ok := errors.AsType[*mcp.StatusError](err); ok && v.Transport == "" && !a.Events && slices.Contains([]int{400, 404, 405}, status.Code) {
		a.Events = true
		var second error
		if session, second = mcp.OpenHTTP(ctx, a, v.mcpConfig()); second == nil {
			err = nil
			v.needsSSE(true)
		}
	}
	if err != nil {
		return nil, v.startError(ctx, nil, err)
	}
	v.initializeFirst = session.Info().Legacy
	return &connection{session: session}, nil
}

// needsSSE reports whether the server supports only SSE; found records that it does.
func (v *server) needsSSE(found bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sseOnly = v.sseOnly || found
	return v.sseOnly
}

func (v *server) mcpConfig() mcp.Config {
	log := v.set.cfg.Log.With("server", v.Name)
	var invalid atomic.Int64
	c := mcp.Config{Client: v.set.cfg.Client, Version: v.set.cfg.Version, MaxMessage: v.set.cfg.MaxResponse, Spool: v.set.spool, InitializeFirst: v.initializeFirst, ListChanges: &v.set.listChanges, Log: log}
	c.InvalidMessage = func(line string) {
		count := invalid.Add(1)
		if count == 1 {
			log.Warn("an upstream server sent an invalid message, which is dropped", "line", v.redact.text(line))
			return
		}
		log.Debug("an upstream server sent an invalid message", "line", v.redact.text(line), "count", count)
	}
	if v.set.cfg.ToolsChanged != nil {
		c.ToolsChanged = v.notifyToolsChanged
	}
	return c
}
