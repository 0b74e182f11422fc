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

// Daemon is a running `sandpiper serve` with a client.
type Daemon struct {
	*Client
	rig *Rig
	cmd *exec.Cmd
	url string // over HTTP

	read <-chan struct{} // closed when all output of the daemon was read
}

// Serve starts a daemon with one client over stdio. It ends with ctx at the latest.
func (r *Rig) Serve(ctx context.Context, args ...string) (*Daemon, error) {
	return r.Start(ctx, r.Command(ctx, append([]string{"serve"}, args...)...))
}

// Start starts a server with one client over stdio.
func (r *Rig) Start(ctx context.Context, server *exec.Cmd) (*Daemon, error) {
	d := &Daemon{rig: r, cmd: server}
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
	if d.Client, err = connect(ctx, line); err != nil {
		d.Kill()
		return nil, fmt.Errorf("connect to %s: %w", server, err)
	}
	return d, nil
}

// ServeHTTP starts a daemon that serves any number of clients on a free loopback port.
// The Daemon is the first client.
func (r *Rig) ServeHTTP(ctx context.Context, args ...string) (*Daemon, error) {
	d := &Daemon{rig: r, cmd: r.Command(ctx, append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)}
	killWithParent(d.cmd)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	var said []string
	for d.url == "" && lines.Scan() {
		said = append(said, lines.Text())
		if url, ok := strings.CutPrefix(lines.Text(), "MCP at "); ok {
			d.url = url
		}
	}
	read := make(chan struct{})
	d.read = read
	go func() { defer close(read); _, _ = io.Copy(io.Discard, stderr) }()
	if d.url == "" {
		d.Kill()
		return nil, fmt.Errorf("sandpiper serve --http ended: %s", strings.Join(said, "\n"))
	}
	if d.Client, err = d.Connect(ctx); err != nil {
		d.Kill()
		return nil, fmt.Errorf("connect to sandpiper serve --http: %w", err)
	}
	return d, nil
}

// Connect opens another connection. Over stdio there is only one, which is safe for
// concurrent use.
func (d *Daemon) Connect(ctx context.Context) (*Client, error) {
	if d.Client != nil && d.url == "" {
		return d.Client, nil
	}
	return d.ConnectAs(ctx, d.rig.cfg.Token)
}

// ConnectAs opens another connection over HTTP with a bearer token.
func (d *Daemon) ConnectAs(ctx context.Context, token string) (*Client, error) {
	return connect(ctx, newHTTP(d.url, token))
}

// ConnectModern returns a client over HTTP of the protocol 2026-07-28 with these capabilities.
func (d *Daemon) ConnectModern(capabilities Args) *Client {
	h := newHTTP(d.url, d.rig.cfg.Token)
	h.about = Args{
		"io.modelcontextprotocol/protocolVersion":    modernVersion,
		"io.modelcontextprotocol/clientCapabilities": capabilities,
		"io.modelcontextprotocol/clientInfo":         Args{"name": "sandpiper-rig", "version": "1"},
	}
	return &Client{h}
}

// PID returns the process ID of the daemon.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Kill sends SIGKILL to the daemon and waits for its process only. Responses that it
// sent before are still delivered.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.read
	_ = d.cmd.Wait()
	if d.Client != nil {
		_ = d.Client.Close()
	}
}

// Close ends the daemon as its clients do: over stdio by disconnecting, over HTTP by a
// signal. It waits, and kills the daemon after 30 seconds.
func (d *Daemon) Close() error {
	err := d.Client.Close()
	if d.url != "" {
		interrupt(d.cmd)
	}
	killTimer := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer killTimer.Stop()
	<-d.read
	if waited := d.cmd.Wait(); err == nil {
		err = waited
	}
	return err
}
