package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// rewrittenKeys is the number of keys that each writer overwrites repeatedly. Every
// other write of a file goes to a new key.
const rewrittenKeys = 5

// client is a daemon with writers that run until it is killed or stopped.
type client struct {
	*rig.Daemon
	chaos       *chaos
	slot        int    // index among the concurrent clients; its successor has the same
	id          string // unique name
	killed      atomic.Bool
	stopWriters context.CancelFunc // stops the writers
	writers     sync.WaitGroup

	mu    sync.Mutex
	wrote map[key]bool
}

// newClient starts a daemon for a slot.
func (c *chaos) newClient(ctx context.Context, slot int) (*client, error) {
	serve := c.rig.Serve
	if slot%2 == 1 {
		serve = c.rig.ServeHTTP
	}
	d, err := serve(ctx)
	if err != nil {
		return nil, err
	}
	return &client{
		Daemon: d, chaos: c, slot: slot, id: fmt.Sprintf("%d_%d", slot, c.res.Rounds),
		stopWriters: func() {}, wrote: map[key]bool{},
	}, nil
}

// work starts the writers, each with its own connection over HTTP.
func (cl *client) work(ctx context.Context) error {
	kinds := []kind{file, code, skill}
	if sessions, err := cl.HasParameter(ctx, "execute_code", "session_id"); err != nil {
		return err
	} else if sessions {
		kinds = append(kinds, step)
	}
	ctx, cl.stopWriters = context.WithCancel(ctx)
	for _, k := range kinds {
		conn, err := cl.Connect(ctx)
		if err != nil {
			return err
		}
		cl.writers.Go(func() { cl.write(ctx, conn, k) })
	}
	return nil
}

// write stores values of one kind sequentially.
func (cl *client) write(ctx context.Context, conn *rig.Client, kind kind) {
	for n := 0; ctx.Err() == nil; n++ {
		k := cl.key(kind, n)
		version := cl.chaos.ledger.begin(k)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		err := cl.store(limited, conn, k, version)
		cancel()
		if err != nil {
			if !cl.killed.Load() {
				cl.chaos.disturbed(cl, k, err)
			}
			return
		}
		cl.chaos.ledger.acknowledge(k)
		cl.acknowledged(k.kind)
	}
}

// key returns the key of the n-th value.
func (cl *client) key(kind kind, n int) key {
	name := fmt.Sprintf("%s/%s%d", cl.folder(), kind, n)
	switch {
	case kind == skill:
		name = fmt.Sprintf("slot%d_%d", cl.slot, n%rewrittenKeys)
	case kind == step:
		name = "session-" + cl.id
	case n%2 == 0:
		name = fmt.Sprintf("chaos/again%d/%s%d", cl.slot, kind, n/2%rewrittenKeys)
	}
	k := key{kind, name}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.wrote[k] = true
	return k
}

// folder returns the directory of its new files.
func (cl *client) folder() string { return "chaos/" + cl.id }

// store stores one value. It returns nil if the program acknowledged it.
func (cl *client) store(ctx context.Context, conn *rig.Client, k key, version int) error {
	text := content(k, version)
	switch k.kind {
	case file:
		return resultError(conn.Call(ctx, "write_workspace_file", rig.Args{"filename": k.name, "content": text}))
	case skill:
		return resultError(conn.Call(ctx, "save_skill", rig.Args{"name": k.name, "code": text}))
	case code:
		return resultError(conn.Call(ctx, "execute_code", rig.Args{
			"code": "write_file(name, text)", "context_vars": rig.Args{"name": k.name, "text": text},
		}))
	default:
		return resultError(conn.Call(ctx, "execute_code", rig.Args{"code": fmt.Sprintf(stepCode, version), "session_id": k.name}))
	}
}

// resultError returns the error of a call that must succeed.
func resultError(a rig.ToolResult, err error) error {
	if err == nil && a.Failed {
		err = fmt.Errorf("the tool failed: %.300s", a.Text)
	}
	return err
}

func (cl *client) acknowledged(k kind) {
	c := cl.chaos
	c.mu.Lock()
	defer c.mu.Unlock()
	c.res.Acknowledged[string(k)]++
}

func (c *chaos) disturbed(cl *client, k key, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.res.Disturbed = append(c.res.Disturbed, fmt.Sprintf("round %d: %s of client %s: %v", c.res.Rounds, k.kind, cl.id, err))
}

// keys returns the keys it wrote to.
func (cl *client) keys() (keys []key) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for k := range cl.wrote {
		keys = append(keys, k)
	}
	return keys
}

// kill kills the daemon.
func (cl *client) kill() {
	cl.killed.Store(true)
	cl.Daemon.Kill()
	cl.stopWriters()
	cl.writers.Wait()
}

// stop waits for the current writes and then stops the daemon.
func (cl *client) stop() error {
	cl.stopWriters()
	cl.writers.Wait()
	if err := cl.Daemon.Close(); err != nil && !strings.Contains(err.Error(), "signal: ") {
		return err
	}
	return nil
}
