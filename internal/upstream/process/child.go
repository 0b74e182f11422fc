// Package process runs one program of an upstream server: what it is told, what it
// may know, what it says on stderr, and its end with all that it started.
//
// A child has a process group of its own, and every process in it and below
// carries a mark in its environment, by which those are found that left the
// group. If the daemon dies, however suddenly, a watcher ends the child.
//
// The package knows no protocol: it hands out the two streams. A Child is safe
// for concurrent use.
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
	Command string            // a name to look for on PATH, or a path. Required
	Args    []string          //
	Env     map[string]string // beside the few variables of the daemon that every program gets; wins over those
	Dir     string            // working directory; "" means the daemon's
	// Grace is the time to exit after stdin is closed, and again after SIGTERM;
	// 0 means 1 s.
	Grace  time.Duration
	Redact func(string) string // takes secrets out of what stderr says; nil means that there are none
	Log    *slog.Logger        // nil discards
}

// Child is a program that was started.
type Child struct {
	Stdin  *os.File // its stdin
	Stdout *os.File // its stdout

	cmd     *exec.Cmd
	marker  string
	watcher *watcher
	stderr  *stderrTail
	grace   time.Duration
	log     *slog.Logger

	exited   chan struct{} // closed when it is gone, with all it started, and its stderr is read
	status   string        // how it ended; set before exited is closed
	stopOnce sync.Once
}

// ErrNotFound means that there is no such program.
var ErrNotFound = errors.New("program not found")

// Start runs the program. The caller has to Stop it, also if it exits by itself.
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
	c.cmd = &exec.Cmd{Path: path, Args: append([]string{cfg.Command}, cfg.Args...), Env: append(env, c.marker), Dir: cfg.Dir, SysProcAttr: procAttrs()}
	return c, c.start(cfg.Redact)
}

// start connects the streams and runs the program, watched from its first moment.
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

// wait notes the end of the program and ends what it left behind.
func (c *Child) wait(stderr *os.File) {
	err := c.cmd.Wait()
	c.status = describe(c.cmd.ProcessState, err)
	c.killAll()
	c.watcher.stop()
	select {
	case <-c.stderr.done:
	case <-time.After(time.Second): // somebody else holds it open
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

// PID is that of the program.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited is closed when the program is gone.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status says how the program ended: "exit status 3", "signal: killed".
func (c *Child) Status() string {
	select {
	case <-c.exited:
		return c.status
	default:
		return "still running"
	}
}

// Said returns the last lines that the program wrote to stderr.
func (c *Child) StderrLines() []string { return c.stderr.lines() }

// Stop ends the program and all that it started: its stdin is closed, then it is
// asked, then killed. It returns when all are gone, after three times Grace and
// a second at most.
func (c *Child) Stop() {
	c.stopOnce.Do(func() {
		c.Stdin.Close()
		if !c.waitExit(c.grace) {
			c.terminate()
			if !c.waitExit(c.grace) {
				c.killAll()
				if !c.waitExit(c.grace + time.Second) {
					c.log.Warn("a program does not end, even killed", "pid", c.PID())
				}
			}
		}
		c.Stdout.Close()
	})
}

func (c *Child) waitExit(patience time.Duration) bool {
	select {
	case <-c.exited:
		return true
	case <-time.After(patience):
		return false
	}
}
