// Package chaos kills daemons under load and checks that nothing is lost or left
// behind.
//
// Several clients, each with its own daemon, alternately over stdio and HTTP, share
// one data directory as the clients of one user do. All of them write files, save
// skills, run code that writes files, and add steps to sessions. In each round one
// daemon is killed at a random moment and replaced. Afterwards everything that it
// acknowledged must be complete, everything else must be complete or absent, and after
// the next start no process, mount, cgroup or lock of the killed daemon may
// remain. The other daemons must not be affected.
//
// Only one Run may be active at a time. It returns an error only if it cannot run; the
// problems that it finds are in the Result.
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
	Clients int          // concurrent clients; 0 means 3
	Seed    uint64       // of the random moments; 0 is also a seed
	Log     func(string) // called with progress messages; nil discards them
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

// Result is the result of a run.
type Result struct {
	Rounds       int
	Acknowledged map[string]int // by kind: "file", "skill", ...
	Checked      int            // values checked after a kill
	InFlight     int            // of those, values whose write the kill interrupted
	Scratch      int            // temporary files of killed code
	Lost         []string       // acknowledged, but missing or incomplete
	Torn         []string       // not acknowledged, and incomplete
	Left         []string       // resources of a killed daemon after the next start
	Disturbed    []string       // failed calls of other daemons
}

// Failed reports whether the run found a problem.
func (r *Result) Failed() bool {
	return len(r.Lost)+len(r.Torn)+len(r.Left)+len(r.Disturbed) > 0
}

// maxLifetime is the maximum time between the start of a daemon and its kill.
const maxLifetime = 700 * time.Millisecond

// chaos is one run.
type chaos struct {
	cfg     Config
	rig     *rig.Rig
	random  *rand.Rand
	names   map[string]bool // of all daemons so far
	clients []*client
	ledger  *ledger

	mu  sync.Mutex
	res Result
}

// Run kills daemons and returns the problems found.
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
	c.addLeft("mounts of the host", rig.Mounts(os.Getpid())-mounts)
	after := slices.DeleteFunc(rig.Orphans(), func(p rig.Process) bool { return slices.Contains(before, p) })
	// Some may belong to other daemons that are exiting.
	c.addLeft("sandboxes without a daemon", len(rig.NewWatch(after).WaitExited(ctx, 30*time.Second)))
	return &c.res, nil
}

func newChaos(cfg Config, dir string) *chaos {
	return &chaos{
		cfg: cfg, rig: rig.New(rig.Config{Binary: cfg.Binary, Dir: dir}), random: rand.New(rand.NewPCG(cfg.Seed, 0)),
		names: map[string]bool{}, ledger: newLedger(), res: Result{Acknowledged: map[string]int{}},
	}
}

// rounds kills daemons, then stops the others and checks all values again.
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
	c.addLeft("daemons that did not clean up", len(c.rig.DaemonNames()))
	return c.verifyAll(ctx)
}

// round kills one daemon, checks its values and replaces it.
func (c *chaos) round(ctx context.Context) error {
	i := c.random.IntN(len(c.clients))
	victim := c.clients[i]
	select {
	case <-time.After(time.Duration(c.random.Int64N(int64(maxLifetime)))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.recordNames()
	watch := rig.NewWatch(rig.Tree(victim.PID()))
	victim.kill()
	c.mu.Lock()
	c.res.Rounds++
	c.mu.Unlock()
	c.addLeft("processes", len(watch.WaitExited(ctx, 30*time.Second)))
	next, err := c.newClient(ctx, i)
	if err != nil {
		return err
	}
	c.clients[i] = next
	if err := c.verify(ctx, next.Client, victim.keys(), victim.folder()); err != nil {
		return err
	}
	c.checkLeft()
	return next.work(ctx)
}

// recordNames records the names of the current daemons.
func (c *chaos) recordNames() {
	for _, n := range c.rig.DaemonNames() {
		c.names[n] = true
	}
}

// checkLeft searches for resources of killed daemons, after another daemon has started
// and executed code. Only running daemons may have a lock.
func (c *chaos) checkLeft() {
	alive := c.rig.DaemonNames()
	c.addLeft("locks of dead daemons", len(alive)-len(c.clients))
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
	c.addLeft("cgroups", len(rig.Groups(names)))
}

func (c *chaos) addLeft(what string, n int) {
	if n > 0 {
		c.res.Left = append(c.res.Left, fmt.Sprintf("round %d: %d %s", c.res.Rounds, n, what))
	}
}

// end stops the daemons as their clients do.
func (c *chaos) end() error {
	var errs []error
	for _, cl := range c.clients {
		errs = append(errs, cl.stop())
	}
	c.clients = nil
	return errors.Join(errs...)
}

// verifyAll checks all acknowledged values with a new daemon.
func (c *chaos) verifyAll(ctx context.Context) error {
	d, err := c.rig.Serve(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	return c.verify(ctx, d.Client, c.ledger.keys())
}
