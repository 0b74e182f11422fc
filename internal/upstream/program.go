package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/process"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// Program is the kind of an MCP server that is a local program and uses its stdin and stdout.
type Program struct {
	Command string            // program name on PATH, or a path
	Args    []string          //
	Env     map[string]string // in addition to PATH, HOME and a few others
	Dir     string            // working directory; "" means the daemon's
}

// Noun implements Kind.
func (Program) Noun() string { return "a local program" }

// Validate implements Kind.
func (p Program) Validate() error {
	if p.Command == "" {
		return errNoAddress
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fault.New(fault.Invalid, "has an environment variable %.100q that cannot be set", name)
		}
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return fault.New(fault.Invalid, "has working directory %q: it must be an absolute path", p.Dir)
	}
	return nil
}

// Connector implements Kind.
func (p Program) Connector(h *Host) Connector {
	return &program{Program: p, host: h, initializeFirst: h.legacy}
}

// WithVariables returns the program with references to variables that it does not refer to yet in
// its environment.
func (p Program) WithVariables(names []string) Program {
	p.Env = maps.Clone(p.Env)
	values := slices.Concat([]string{p.Command}, p.Args, slices.Collect(maps.Values(p.Env)))
	for _, name := range names {
		reference := "${" + name + "}"
		if slices.ContainsFunc(values, func(text string) bool { return strings.Contains(text, reference) }) {
			continue
		}
		if p.Env == nil {
			p.Env = map[string]string{}
		}
		p.Env[name] = reference
	}
	return p
}

// program starts a Program for each connection.
type program struct {
	Program
	host            *Host
	initializeFirst bool // see mcp.Info.Legacy

	mu     sync.Mutex
	stderr []string // last lines of the last program that has exited
}

// Open implements Connector. A program that exits on server/discover is restarted with initialize
// first.
func (p *program) Open(ctx context.Context) (Session, error) {
	at, err := p.resolve(ctx)
	if err != nil {
		return nil, err
	}
	s, err := p.launch(ctx, at)
	if errors.Is(err, mcp.ErrClosedEarly) && !p.initializeFirst {
		p.initializeFirst = true
		if s, err = p.launch(ctx, at); err != nil {
			p.initializeFirst = false
		}
	}
	if err != nil {
		return nil, p.startError(ctx, s, err)
	}
	p.initializeFirst = s.Info().Legacy
	return s, nil
}

// resolve returns the program with its references resolved.
func (p *program) resolve(ctx context.Context) (Program, error) {
	at := p.Program
	var err error
	if at.Env, err = p.host.resolveAll(ctx, "environment variable", p.Env); err != nil {
		return at, err
	}
	at.Args = slices.Clone(p.Args)
	for i := range at.Args {
		if at.Args[i], err = p.host.set.cfg.Resolve(ctx, p.Args[i]); err != nil {
			return at, unresolved("setting", "argument "+strconv.Itoa(i+1), err)
		}
		if at.Args[i] != p.Args[i] {
			p.host.redact.addSecret(at.Args[i])
		}
	}
	if at.Command, err = p.host.set.cfg.Resolve(ctx, p.Command); err != nil {
		return at, unresolved("setting", "command", err)
	}
	return at, at.Validate()
}

// launch starts the program and connects to it. On an error it also returns the session if the
// program ran, for its exit status and stderr.
func (p *program) launch(ctx context.Context, at Program) (*programSession, error) {
	child, err := process.Start(process.Config{
		Command: at.Command, Args: at.Args, Env: at.Env, Dir: p.Dir,
		Redact: p.redactStderr, Log: p.host.set.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	s := &programSession{child: child, of: p}
	s.Session, err = mcp.OpenStreams(ctx, child.Stdout, child.Stdin, mcpConfig(p.host, p.initializeFirst))
	if err != nil {
		child.Stop()
		p.keepStderr(child)
	}
	return s, err
}

// redactStderr removes secrets and personal data from stderr.
func (p *program) redactStderr(text string) string {
	text = p.host.redact.text(text)
	if redact := p.host.set.cfg.Redact; redact != nil {
		text = redact(text)
	}
	return text
}

func (p *program) keepStderr(child *process.Child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stderr = child.StderrLines()
}

// lastStderr returns the last lines of the last program that has exited.
func (p *program) lastStderr() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr
}

// programSession is the session with a running program.
type programSession struct {
	mcpSession
	child *process.Child
	of    *program
}

// Close implements Session. It stops the program.
func (s *programSession) Close() {
	s.child.Stdin.Close() // lets the program exit by itself
	s.mcpSession.Close()
	s.child.Stop()
	s.of.keepStderr(s.child)
}

// closedWhile states how the program closed the connection during a request.
func (s *programSession) closedWhile(doing string) string {
	select {
	case <-s.child.Exited():
	case <-time.After(3 * time.Second): // it runs, and has closed its streams
		return "closed the connection while " + doing + s.stderrTail()
	}
	return fmt.Sprintf("exited while %s (%s)%s", doing, s.child.Status(), s.stderrTail())
}

// stderrTail returns the last lines of stderr as the end of an error message.
func (s *programSession) stderrTail() string {
	const shown = 3
	lines := s.child.StderrLines()
	if len(lines) == 0 {
		return ""
	}
	for i, line := range lines {
		lines[i] = sanitize.Truncate(line, 300)
	}
	return "; stderr: " + strings.Join(lines[max(0, len(lines)-shown):], " | ")
}

// installHints state how to install programs that many servers use.
var installHints = map[string]string{
	"npx":    "install Node.js, which includes it",
	"node":   "install Node.js",
	"npm":    "install Node.js, which includes it",
	"uvx":    "install uv, which includes it",
	"uv":     "install uv",
	"docker": "install Docker, or a compatible program",
	"python": "install Python 3 or use python3",
	"bunx":   "install Bun, which includes it",
	"deno":   "install Deno",
}

// startError returns the error of a failed start. s is nil if the program did not run.
func (p *program) startError(ctx context.Context, s *programSession, err error) error {
	switch {
	case p.Dir != "" && !isDir(p.Dir):
		return fault.New(fault.Unavailable, "cannot be started: its cwd %q is not a directory", p.Dir).
			WithHint("correct cwd in the entry %s of servers, or create the directory", p.host.name)
	case errors.Is(err, process.ErrNotFound):
		if info, err := os.Stat(p.Command); err == nil && info.Mode().IsRegular() && strings.ContainsAny(p.Command, `/\`) {
			return p.notExecutable()
		}
		hint := cmp.Or(installHints[strings.TrimSuffix(filepath.Base(p.Command), ".exe")], "install it")
		return fault.New(fault.Unavailable, "cannot be started: program %q not found", p.Command).
			WithHint("%s, or correct command in the entry %s of servers", hint, p.host.name)
	case errors.Is(err, fs.ErrPermission):
		return p.notExecutable()
	case s == nil:
		return openError(ctx, err)
	case context.Cause(ctx) == errTimeout:
		return fault.New(fault.Unavailable, "was not ready after %s%s", p.host.startTimeout, s.stderrTail())
	case errors.Is(err, mcp.ErrClosed) || errors.Is(err, mcp.ErrClosedEarly):
		return fault.New(fault.Unavailable, "exited while starting (%s)%s", s.child.Status(), s.stderrTail())
	}
	return err
}

func (p *program) notExecutable() error {
	return fault.New(fault.Unavailable, "cannot be started: %q is not executable", p.Command).
		WithHint("make it executable, or correct command in the entry %s of servers", p.host.name)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
