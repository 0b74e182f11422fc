package rig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Daemon is one running `serve`, with a client.
type Daemon struct {
	*Client
	rig *Rig
	cmd *exec.Cmd
	url string // over HTTP

	read <-chan struct{} // closed when all that the daemon wrote was read
}

// Serve starts a daemon that answers one client over stdio. It ends with ctx, if
// not before.
func (r *Rig) Serve(ctx context.Context, args ...string) (*Daemon, error) {
	d := &Daemon{rig: r, cmd: r.Command(ctx, append([]string{"serve"}, args...)...)}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := d.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	line := newStdio(in, out)
	d.read = line.gone
	if d.Client, err = greet(ctx, line); err != nil {
		d.Kill()
		return nil, fmt.Errorf("greet sandpiper serve: %w", err)
	}
	return d, nil
}

// ServeHTTP starts a daemon that answers any number of clients, at a free port of
// this machine. The Daemon is the first of them.
func (r *Rig) ServeHTTP(ctx context.Context, args ...string) (*Daemon, error) {
	d := &Daemon{rig: r, cmd: r.Command(ctx, append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)}
	diesWithUs(d.cmd)
	said, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(said)
	for d.url == "" && lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "MCP at "); ok {
			d.url = url
		}
	}
	read := make(chan struct{})
	d.read = read
	go func() { defer close(read); _, _ = io.Copy(io.Discard, said) }()
	if d.Client, err = d.Connect(ctx); err != nil {
		d.Kill()
		return nil, fmt.Errorf("greet sandpiper serve --http: %w", err)
	}
	return d, nil
}

// Connect opens another connection. Over stdio there is only the one, which many
// may use at once.
func (d *Daemon) Connect(ctx context.Context) (*Client, error) {
	if d.Client != nil && d.url == "" {
		return d.Client, nil
	}
	return greet(ctx, newHTTP(d.url))
}

// PID is the process of the daemon.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Kill gives the daemon no chance to do anything more, and waits for its process
// alone. What it answered before is still heard.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.read
	_ = d.cmd.Wait()
	if d.Client != nil {
		_ = d.Client.Close()
	}
}

// Close ends the daemon as its clients do: over stdio they leave, over HTTP it is
// told to stop. It waits, and ends what does not end by itself.
func (d *Daemon) Close() error {
	err := d.Client.Close()
	if d.url != "" {
		interrupt(d.cmd)
	}
	impatient := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer impatient.Stop()
	<-d.read
	if waited := d.cmd.Wait(); err == nil {
		err = waited
	}
	return err
}
