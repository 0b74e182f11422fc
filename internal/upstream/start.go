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

// start makes a connection within the server's time. What it returns as an error
// is the reason, as a sentence.
func (v *server) start() (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(v.set.life, v.StartTimeout, errTimeout)
	defer cancel()
	c, err := v.reach(ctx)
	if err != nil {
		return nil, err
	}
	if !v.set.spawn(func() { v.watch(c) }) {
		v.end(c)
		return nil, v.closing()
	}
	return c, nil
}

func (v *server) reach(ctx context.Context) (*connection, error) {
	if v.OpenAPI != nil {
		return v.describe(ctx)
	}
	env, err := v.resolve(ctx, "environment variable", v.Env)
	if err != nil {
		return nil, err
	}
	headers, err := v.resolve(ctx, "header", v.Headers)
	if err != nil {
		return nil, err
	}
	at, err := v.place(ctx)
	if err != nil {
		return nil, err
	}
	if v.Command != "" {
		return v.run(ctx, at, env)
	}
	tokens, err := v.tokens(ctx, at.URL)
	if err != nil {
		return nil, err
	}
	return v.dial(ctx, mcp.Address{URL: at.URL, Headers: headers, Tokens: tokens})
}

// place is what is to be started or called, with what it holds looked up.
func (v *server) place(ctx context.Context) (Server, error) {
	at := v.Server
	at.Args = slices.Clone(v.Args)
	parts := map[string]*string{"command": &at.Command, "url": &at.URL}
	for i := range at.Args {
		parts["argument "+strconv.Itoa(i+1)] = &at.Args[i]
	}
	for _, what := range slices.Sorted(maps.Keys(parts)) {
		value, err := v.set.cfg.Resolve(ctx, *parts[what])
		if err != nil {
			return at, v.unresolved("setting", what, err)
		}
		if value != *parts[what] && what != "command" {
			v.redact.add(value)
		}
		*parts[what] = value
	}
	return at, check(at)
}

// resolve looks the values up.
func (v *server) resolve(ctx context.Context, what string, values map[string]string) (map[string]string, error) {
	resolved := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, err := v.set.cfg.Resolve(ctx, values[name])
		if err != nil {
			return nil, v.unresolved(what, name, err)
		}
		if value != values[name] || secretive(name) {
			v.redact.add(value)
			if what == "header" {
				v.redact.sendHeader(value)
			}
		}
		resolved[name] = value
	}
	return resolved, nil
}

// run starts the program. One that exits on server/discover is started again, and
// sent initialize first.
func (v *server) run(ctx context.Context, at Server, env map[string]string) (*connection, error) {
	c, err := v.try(ctx, at, env)
	if errors.Is(err, mcp.ErrSilent) && !v.old {
		v.old = true
		if c, err = v.try(ctx, at, env); err != nil {
			v.old = false
		}
	}
	if err == nil {
		v.old = c.session.Info().Legacy
		return c, nil
	}
	return nil, v.notStarted(ctx, c, err)
}

// unprivate redacts what the program writes to stderr.
func (v *server) unprivate(text string) string {
	text = v.redact.text(text)
	if v.set.cfg.Redact != nil {
		text = v.set.cfg.Redact(text)
	}
	return text
}

// try starts the program and speaks with it. Beside an error comes what is known
// of the program that had it.
func (v *server) try(ctx context.Context, at Server, env map[string]string) (*connection, error) {
	program, err := process.Start(process.Config{Command: at.Command, Args: at.Args, Env: env, Dir: v.Dir, Redact: v.unprivate, Log: v.set.cfg.Log})
	if err != nil {
		return nil, err
	}
	c := &connection{child: program}
	c.session, err = mcp.OverStreams(ctx, program.Out, program.In, v.config())
	if err != nil {
		program.Stop()
		v.mu.Lock()
		v.said = program.Said()
		v.mu.Unlock()
	}
	return c, err
}

// dial connects over HTTP. Where a message is refused in a way that says that
// nobody takes any there, it may be a server of the first days.
func (v *server) dial(ctx context.Context, a mcp.Address) (*connection, error) {
	a.Events = v.Transport == "sse" || v.onlyEvents(false)
	session, err := mcp.OverHTTP(ctx, a, v.config())
	if status, ok := errors.AsType[*mcp.StatusError](err); ok && v.Transport == "" && !a.Events && slices.Contains([]int{400, 404, 405}, status.Code) {
		a.Events = true
		var second error
		if session, second = mcp.OverHTTP(ctx, a, v.config()); second == nil {
			err = nil
			v.onlyEvents(true)
		}
	}
	if err != nil {
		return nil, v.notStarted(ctx, nil, err)
	}
	v.old = session.Info().Legacy
	return &connection{session: session}, nil
}

// onlyEvents tells whether the server was found to speak over events only.
func (v *server) onlyEvents(found bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events = v.events || found
	return v.events
}

func (v *server) config() mcp.Config {
	log := v.set.cfg.Log.With("server", v.Name)
	var noise atomic.Int64
	c := mcp.Config{Client: v.set.cfg.Client, Version: v.set.cfg.Version, MaxAnswer: v.set.cfg.MaxAnswer, Old: v.old, News: &v.set.news, Log: log}
	c.Noise = func(line string) {
		count := noise.Add(1)
		if count == 1 {
			log.Warn("an upstream server sends what is no message; it is dropped", "line", v.redact.text(line))
			return
		}
		log.Debug("an upstream server sends what is no message", "line", v.redact.text(line), "count", count)
	}
	if v.set.cfg.Changed != nil {
		c.Changed = v.changed
	}
	return c
}
