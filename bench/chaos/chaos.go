// Package chaos kills daemons under load and looks whether anything is lost or
// left.
//
// Several clients, each with a daemon of its own, over stdio and over HTTP by
// turns, share one data directory as the clients of one person do. All write
// files, save skills, run code that writes files, and take steps in sessions.
// Round by round one daemon is killed at a random moment and replaced. Then
// everything that was acknowledged before must be there and whole, what was not
// acknowledged is there whole or not at all, and after the next start nothing is
// left of the dead daemon: no process, mount, control group or lock. The others
// must not notice.
//
// Run may be called once at a time. It fails only if it cannot be done at all;
// what it finds is in the Result.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// Config of a run.
type Config struct {
	Binary  string       // the program; required
	Rounds  int          // daemons killed; 0 means 100
	Clients int          // at once; 0 means 3
	Seed    uint64       // of what is random here; 0 is one, too
	Log     func(string) // told how far it is; nil means silence
}

func (c Config) withDefaults() Config {
	if c.Rounds == 0 {
		c.Rounds = 100
	}
	if c.Clients == 0 {
		c.Clients = 3
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	return c
}

// Result is what was found.
type Result struct {
	Rounds       int
	Acknowledged map[string]int // by kind: "file", "skill", ...
	Checked      int            // values looked at after a kill
	InFlight     int            // of those, values that a kill came between
	Scratch      int            // temporary files of code that was killed while it wrote
	Lost         []string       // acknowledged and not there, or not whole
	Torn         []string       // not acknowledged and half there
	Left         []string       // of a dead daemon after the next start
	Disturbed    []string       // calls of others that failed
}

// Failed reports whether anything was found that should not be.
func (r *Result) Failed() bool {
	return len(r.Lost)+len(r.Torn)+len(r.Left)+len(r.Disturbed) > 0
}

// longest is how long after its start a daemon may live before it is killed.
const longest = 700 * time.Millisecond

// chaos is one run.
type chaos struct {
	cfg     Config
	rig     *rig.Rig
	random  *rand.Rand
	names   map[string]bool // of all daemons there were
	clients []*client
	ledger  *ledger

	mu  sync.Mutex
	res Result
}

// Run kills daemons.
func Run(ctx context.Context, cfg Config) (_ *Result, err error) {
	cfg = cfg.withDefaults()
	dir, err := os.MkdirTemp("", "sandpiper-chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := newChaos(cfg, dir)
	if err := c.rig.Ready(ctx); err != nil {
		return nil, err
	}
	mounts, before := rig.Mounts(os.Getpid()), rig.Orphans()
	if err := c.rounds(ctx); err != nil {
		return nil, err
	}
	c.left("mounts of the host", rig.Mounts(os.Getpid())-mounts)
	after := slices.DeleteFunc(rig.Orphans(), func(p rig.Process) bool { return slices.Contains(before, p) })
	// Some may be those of another program's daemon, which are about to end.
	c.left("sandboxes without a daemon", len(rig.NewWatch(after).Ended(ctx, 30*time.Second)))
	return &c.res, nil
}

func newChaos(cfg Config, dir string) *chaos {
	return &chaos{
		cfg: cfg, rig: rig.New(rig.Config{Binary: cfg.Binary, Dir: dir}), random: rand.New(rand.NewPCG(cfg.Seed, 0)),
		names: map[string]bool{}, ledger: newLedger(), res: Result{Acknowledged: map[string]int{}},
	}
}

// rounds kills daemons, then ends those that live and looks at everything again.
func (c *chaos) rounds(ctx context.Context) (err error) {
	for i := range c.cfg.Clients {
		cl, err := c.newClient(ctx, i)
		if err == nil {
			c.clients = append(c.clients, cl)
			err = cl.work(ctx)
		}
		if err != nil {
			return errors.Join(err, c.end())
		}
	}
	for c.res.Rounds < c.cfg.Rounds && err == nil {
		err = c.round(ctx)
		if c.res.Rounds%10 == 0 {
			c.mu.Lock()
			text := fmt.Sprintf("%d daemons killed; acknowledged: %s; %d lost", c.res.Rounds, c.res.acknowledged(), len(c.res.Lost))
			c.mu.Unlock()
			c.cfg.Log(text)
		}
	}
	if err = errors.Join(err, c.end()); err != nil {
		return err
	}
	c.left("daemons that did not clean up", len(c.rig.Names()))
	return c.last(ctx)
}

// round kills one daemon and replaces it.
func (c *chaos) round(ctx context.Context) error {
	i := c.random.IntN(len(c.clients))
	victim := c.clients[i]
	select {
	case <-time.After(time.Duration(c.random.Int64N(int64(longest)))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.note()
	watch := rig.NewWatch(rig.Tree(victim.PID()))
	victim.kill()
	c.mu.Lock()
	c.res.Rounds++
	c.mu.Unlock()
	c.left("processes", len(watch.Ended(ctx, 30*time.Second)))
	next, err := c.newClient(ctx, i)
	if err != nil {
		return err
	}
	c.clients[i] = next
	if err := c.verify(ctx, next.Client, victim.keys(), victim.folder()); err != nil {
		return err
	}
	c.leftovers()
	return next.work(ctx)
}

// note remembers what daemons there are.
func (c *chaos) note() {
	for _, n := range c.rig.Names() {
		c.names[n] = true
	}
}

// leftovers looks for what dead daemons left, now that another has started and
// run code. Only those that live have a lock.
func (c *chaos) leftovers() {
	alive := c.rig.Names()
	c.left("locks of dead daemons", len(alive)-len(c.clients))
	dead := map[string]bool{}
	for n := range c.names {
		dead[n] = true
	}
	for _, n := range alive {
		delete(dead, n)
	}
	var names []string
	for n := range dead {
		names = append(names, n)
	}
	c.left("control groups", len(rig.Groups(names)))
}

func (c *chaos) left(what string, n int) {
	if n > 0 {
		c.res.Left = append(c.res.Left, fmt.Sprintf("round %d: %d %s", c.res.Rounds, n, what))
	}
}

// end ends the daemons as their clients do.
func (c *chaos) end() error {
	var errs []error
	for _, cl := range c.clients {
		errs = append(errs, cl.stop())
	}
	c.clients = nil
	return errors.Join(errs...)
}

// last looks at everything that was ever acknowledged, through a new daemon.
func (c *chaos) last(ctx context.Context) error {
	d, err := c.rig.Serve(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	return c.verify(ctx, d.Client, c.ledger.keys())
}
