// Package process runs the program of one upstream server. It defines the program's
// environment, reads its stderr, and stops it together with all its descendants.
//
// A child has its own process group. Every descendant inherits a marker variable in its
// environment, which finds processes that left the group. A watcher kills the child if
// the daemon dies.
//
// The package knows no protocol and exposes the two streams. A Child is safe for
// concurrent use.
package process

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Config of a Child.
type Config struct {
	Command string            // program name on PATH, or a path. Required
	Args    []string          //
	Env     map[string]string // added to the inherited variables of the daemon, and overrides them
	Dir     string            // working directory; "" means the daemon's
	// Grace is the time to exit after stdin is closed, and again after SIGTERM; 0 means 1
	// s.
	Grace  time.Duration
	Redact func(string) string // removes secrets from stderr; nil keeps all
	Log    *slog.Logger        // nil discards
}

// Child is a started program.
type Child struct {
	Stdin  *os.File // its stdin
	Stdout *os.File // its stdout

	cmd     *exec.Cmd
	marker  string
	watcher *watcher
	stderr  *stderrTail
	grace   time.Duration
	log     *slog.Logger

	exited   chan struct{} // closed when it and its descendants have exited and stderr is read
	status   string        // exit status; set before exited is closed
	stopOnce sync.Once
}

// ErrNotFound means that the program does not exist.
var ErrNotFound = errors.New("program not found")

// Start runs the program. The caller must call Stop, even if the program exits by
// itself.
func Start(cfg Config) (*Child, error) {
	c := &Child{marker: "_SANDPIPER_UPSTREAM=" + rand.Text(), grace: cfg.Grace, log: cfg.Log, exited: make(chan struct{})}
	if c.grace == 0 {
		c.grace = time.Second
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	env := environment(cfg.Env)
	path, err := findProgram(cfg.Command, cfg.Env)
	if err != nil {
		return nil, err
	}
	c.cmd = &exec.Cmd{Path: path, Args: append([]string{cfg.Command}, cfg.Args...), Env: append(env, c.marker), Dir: cfg.Dir,
		SysProcAttr: procAttrs()}
	return c, c.start(cfg.Redact)
}

// start connects the streams and runs the program. The watcher starts first, so that the
// program is never unwatched.
func (c *Child) start(redact func(string) string) error {
	var theirs, ours [3]*os.File
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs[:], ours[:])
			return err
		}
		theirs[i], ours[i] = w, r
		if i == 0 {
			theirs[i], ours[i] = r, w
		}
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	c.watcher = startWatcher(c.marker, c.log)
	err := c.cmd.Start()
	closeAll(theirs[:])
	if err != nil {
		closeAll(ours[:])
		c.watcher.stop()
		return err
	}
	c.watcher.protect(c.cmd.Process)
	c.Stdin, c.Stdout = ours[0], ours[1]
	c.stderr = tailStderr(ours[2], redact)
	go c.wait(ours[2])
	return nil
}

func closeAll(sets ...[]*os.File) {
	for _, files := range sets {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
}

// wait waits for the program to exit and kills its remaining descendants.
func (c *Child) wait(stderr *os.File) {
	err := c.cmd.Wait()
	c.status = describe(c.cmd.ProcessState, err)
	c.killAll()
	c.watcher.stop()
	select {
	case <-c.stderr.done:
	case <-time.After(time.Second): // another process holds it open
	}
	stderr.Close()
	<-c.stderr.done
	close(c.exited)
}

func describe(state *os.ProcessState, err error) string {
	if state == nil {
		return err.Error()
	}
	return state.String()
}

// PID returns the process ID of the program.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited returns a channel that is closed when the program and its descendants have
// exited.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status returns the exit status: "exit status 3", "signal: killed", "still running".
func (c *Child) Status() string {
	select {
	case <-c.exited:
		return c.status
	default:
		return "still running"
	}
}

// StderrLines returns the last lines that the program wrote to stderr.
func (c *Child) StderrLines() []string { return c.stderr.lines() }

// Stop stops the program and its descendants: it closes stdin, then sends SIGTERM, then
// SIGKILL. It returns when all have exited, after at most three times Grace plus one
// second.
func (c *Child) Stop() {
	c.stopOnce.Do(func() {
		c.Stdin.Close()
		if !c.waitExit(c.grace) {
			c.terminate()
			if !c.waitExit(c.grace) {
				c.killAll()
				if !c.waitExit(c.grace + time.Second) {
					c.log.Warn("an upstream program did not exit after SIGKILL", "pid", c.PID())
				}
			}
		}
		c.Stdout.Close()
	})
}

func (c *Child) waitExit(timeout time.Duration) bool {
	select {
	case <-c.exited:
		return true
	case <-time.After(timeout):
		return false
	}
}
