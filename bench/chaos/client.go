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

// again is how many places each writer overwrites again and again. In between it
// makes new ones.
const again = 5

// client is one daemon, and writers that keep it busy until it is killed or told
// to stop.
type client struct {
	*rig.Daemon
	chaos   *chaos
	slot    int    // which of the clients at once it is; its successor has the same
	life    string // a name for this one alone
	killed  atomic.Bool
	rest    context.CancelFunc // tells the writers to stop
	writers sync.WaitGroup

	mu    sync.Mutex
	wrote map[key]bool
}

// newClient starts a daemon in that slot.
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
		Daemon: d, chaos: c, slot: slot, life: fmt.Sprintf("%d_%d", slot, c.res.Rounds),
		rest: func() {}, wrote: map[key]bool{},
	}, nil
}

// work starts the writers, each with a connection of its own where there can be
// several.
func (cl *client) work(ctx context.Context) error {
	kinds := []kind{file, code, skill}
	if sessions, err := cl.Takes(ctx, "execute_code", "session_id"); err != nil {
		return err
	} else if sessions {
		kinds = append(kinds, step)
	}
	ctx, cl.rest = context.WithCancel(ctx)
	for _, k := range kinds {
		conn, err := cl.Connect(ctx)
		if err != nil {
			return err
		}
		cl.writers.Go(func() { cl.write(ctx, conn, k) })
	}
	return nil
}

// write has values of one kind kept, one after the other.
func (cl *client) write(ctx context.Context, conn *rig.Client, kind kind) {
	for n := 0; ctx.Err() == nil; n++ {
		k := cl.key(kind, n)
		version := cl.chaos.ledger.begin(k)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		err := cl.keep(limited, conn, k, version)
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

// key is where the n-th value goes.
func (cl *client) key(kind kind, n int) key {
	name := fmt.Sprintf("%s/%s%d", cl.folder(), kind, n)
	switch {
	case kind == skill:
		name = fmt.Sprintf("slot%d_%d", cl.slot, n%again)
	case kind == step:
		name = "session-" + cl.life
	case n%2 == 0:
		name = fmt.Sprintf("chaos/again%d/%s%d", cl.slot, kind, n/2%again)
	}
	k := key{kind, name}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.wrote[k] = true
	return k
}

// folder is where its new files are.
func (cl *client) folder() string { return "chaos/" + cl.life }

// keep has one value kept. Nil means that the program says it is.
func (cl *client) keep(ctx context.Context, conn *rig.Client, k key, version int) error {
	text := content(k, version)
	switch k.kind {
	case file:
		return did(conn.Call(ctx, "write_workspace_file", rig.Args{"filename": k.name, "content": text}))
	case skill:
		return did(conn.Call(ctx, "save_skill", rig.Args{"name": k.name, "code": text}))
	case code:
		return did(conn.Call(ctx, "execute_code", rig.Args{
			"code": "write_file(name, text)", "context_vars": rig.Args{"name": k.name, "text": text},
		}))
	default:
		return did(conn.Call(ctx, "execute_code", rig.Args{"code": fmt.Sprintf(stepCode, version), "session_id": k.name}))
	}
}

// did is the error of a call that must succeed.
func did(a rig.Answer, err error) error {
	if err == nil && a.Failed {
		err = fmt.Errorf("was answered %.300s", a.Text)
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
	c.res.Disturbed = append(c.res.Disturbed, fmt.Sprintf("round %d: %s of client %s: %v", c.res.Rounds, k.kind, cl.life, err))
}

// keys are the places it wrote to.
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
	cl.rest()
	cl.writers.Wait()
}

// stop lets the writers end what they are at, and then the daemon.
func (cl *client) stop() error {
	cl.rest()
	cl.writers.Wait()
	if err := cl.Daemon.Close(); err != nil && !strings.Contains(err.Error(), "signal: ") {
		return err
	}
	return nil
}
