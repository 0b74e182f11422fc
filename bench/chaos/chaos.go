// Package chaos kills daemons at random moments and checks that nothing is lost, doubled or stuck.
//
// A round has a data directory of its own with one daemon or two. A client does work of one kind, such as
// code with writes to an upstream server, or a plan, and the daemon is killed between the begin and the
// end of the work, most often shortly before or after an effect of a write. The client continues with
// the other daemon, or with one that is started again, as its user would: it resumes the work, approves
// calls, answers questions, and decides about calls whose outcome is unknown by the record of the
// upstream server. Some rounds kill again while it does so. The work must end within 30 seconds of the last
// kill. Each write must have been made once, what was acknowledged must be present, each unknown call
// must be reported once, and no process, mount, cgroup or lock of a daemon may remain.
//
// Run returns an error only if it cannot run; the problems that it finds are in the Result.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/host"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// Config of a run. All fields are required.
type Config struct {
	Binary   string                     // the program
	Upstream func(file string) []string // command of a process that calls Upstream
	Kinds    []string                   // of work
	Rounds   int                        // of each kind
	Daemons  int                        // 2: every second round has two; 1: none has
	Parallel int                        // rounds at a time
	Seed     uint64                     // of the random moments
	Patience time.Duration              // until work is stuck
	Log      func(string)               // called with progress messages
}

// Kinds returns the kinds of work.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// chaos is one run.
type chaos struct {
	cfg Config
	dir string

	mu  sync.Mutex
	res Result
}

// Run kills daemons and returns the problems found.
func Run(ctx context.Context, cfg Config) (_ *Result, err error) {
	dir, err := os.MkdirTemp("", "sandpiper-chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := newChaos(cfg, dir)
	if err := c.rig("ready").Ready(ctx); err != nil {
		return nil, err
	}
	mounts, before := host.Mounts(os.Getpid()), host.Orphans()
	for _, name := range cfg.Kinds {
		if err := c.runKind(ctx, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if n := host.Mounts(os.Getpid()) - mounts; n > 0 {
		c.res.Problems = append(c.res.Problems, fmt.Sprintf("%d mounts of the host are left", n))
	}
	after := slices.DeleteFunc(host.Orphans(), func(p rig.Process) bool { return slices.Contains(before, p) })
	// Some may belong to other daemons that are exiting.
	if left := host.NewWatch(after).WaitExited(ctx, 30*time.Second); len(left) > 0 {
		c.res.Problems = append(c.res.Problems, fmt.Sprintf("%d sandboxes without a daemon are left", len(left)))
	}
	return &c.res, nil
}

func newChaos(cfg Config, dir string) *chaos {
	return &chaos{cfg: cfg, dir: dir, res: Result{Kinds: cfg.Kinds, Counts: map[string]map[string]int{}}}
}

// rig returns a program with directories of its own, but for Python.
func (c *chaos) rig(name string) *rig.Rig {
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err) // the parent was just made
	}
	return rig.New(rig.Config{Binary: c.cfg.Binary, Dir: dir, Cache: filepath.Join(c.dir, "cache")})
}

// runKind does the work once without a kill, for its duration, and then the rounds.
func (c *chaos) runKind(ctx context.Context, name string) error {
	k, ok := kinds()[name]
	if !ok {
		return fmt.Errorf("there is no such kind; there are %v", Kinds())
	}
	calm := c.newRound(k, name, -1, 0)
	began := time.Now()
	if err := calm.run(ctx, 0); err != nil || len(calm.problems) > 0 {
		c.add(calm)
		return err
	}
	took := time.Since(began) - calm.start
	c.cfg.Log(fmt.Sprintf("%s: takes %v", name, took.Round(time.Millisecond)))
	numbers := make(chan int)
	var workers sync.WaitGroup
	errs := make([]error, c.cfg.Parallel)
	for i := range errs {
		workers.Go(func() {
			for n := range numbers {
				r := c.newRound(k, name, n, took)
				err := r.run(ctx, 1+min(1, max(0, r.random.IntN(4)-2)))
				errs[i] = errors.Join(errs[i], err)
				c.add(r)
			}
		})
	}
	for n := 0; n < c.cfg.Rounds && ctx.Err() == nil; n++ {
		numbers <- n
	}
	close(numbers)
	workers.Wait()
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// newRound returns the n-th round of a kind. Its seed is the sum of n and that of the run, so that one
// round can be repeated.
func (c *chaos) newRound(k kind, name string, n int, took time.Duration) *round {
	h := fnv.New64()
	fmt.Fprint(h, name)
	seed := c.cfg.Seed + uint64(n)
	r := &round{
		kind: k, name: name, seed: seed, took: took, random: rand.New(rand.NewPCG(seed, h.Sum64())),
		rig: c.rig(fmt.Sprint(name, n)), cfg: c.cfg, daemonCount: 1 + int(seed)%c.cfg.Daemons,
		count: map[string]int{"rounds": 1}, names: map[string]bool{},
		user: newUser(seed),
	}
	for i := range k.writes {
		r.ids = append(r.ids, fmt.Sprintf("w%d-%d", seed, i))
	}
	return r
}

// add adds a round to the result.
func (c *chaos) add(r *round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row := c.res.Counts[r.name]
	if row == nil {
		row = map[string]int{}
		c.res.Counts[r.name] = row
	}
	for _, err := range r.problems {
		var p problem
		if !errors.As(err, &p) {
			p = problem{"failed", err.Error()}
		}
		r.count[p.what]++
		text := fmt.Sprintf("%s: %v (repeat: -kinds %s -rounds 1 -seed %d)", r.name, p, r.name, r.seed)
		c.res.Problems = append(c.res.Problems, text)
		c.cfg.Log(text)
	}
	for column, n := range r.count {
		row[column] += n
	}
}
