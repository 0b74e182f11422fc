// Package soak keeps the program at work for a while and watches whether it stays
// as it was.
//
// Two daemons share a data directory, one over stdio and one over HTTP. First
// their saturation with a mix of executions is measured, then the same mix runs at
// half of it: sums, files, skills, sessions, exceptions, time and memory limits,
// a megabyte of output. Every answer is checked to belong to its question. Every
// few seconds a sample is taken of all that a leak could show in: memory,
// descriptors, processes, mounts, control groups, disk. See grown for the rule.
//
// Run may be called once at a time. It fails only if it cannot be done at all;
// what it finds is in the Result.
package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/rig"
)

// Config of a run.
type Config struct {
	Binary   string        // the program; required
	Duration time.Duration // at half of saturation; 0 means 10 minutes
	Every    time.Duration // between two samples; 0 means 5 s
	Log      func(string)  // told how far it is; nil means silence
}

func (c Config) withDefaults() Config {
	if c.Duration == 0 {
		c.Duration = 10 * time.Minute
	}
	if c.Every == 0 {
		c.Every = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	return c
}

// Result is what was found.
type Result struct {
	Saturation float64        // executions a second
	Rate       float64        // that were asked for afterwards
	Asked      map[string]int // by kind
	Late       int            // not asked, since all callers still waited
	Wrong      int            // answers that were not to their question
	Examples   []string       // of those, and of errors
	Samples    []Sample
	Left       []string // what the daemons left behind
}

// callers of each daemon. Eight executions run at once in a daemon by default.
const callers = 8

// soak is one run.
type soak struct {
	cfg     Config
	rig     *rig.Rig
	daemons []*rig.Daemon
	callers []*caller
	number  atomic.Int64 // of the last question

	mu  sync.Mutex
	res Result
}

// Run soaks the program.
func Run(ctx context.Context, cfg Config) (_ *Result, err error) {
	cfg = cfg.withDefaults()
	dir, err := os.MkdirTemp("", "sandpiper-soak-")
	if err != nil {
		return nil, err
	}
	s := &soak{cfg: cfg, rig: rig.New(rig.Config{Binary: cfg.Binary, Dir: dir}), res: Result{Asked: map[string]int{}}}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := s.rig.Ready(ctx); err != nil {
		return nil, err
	}
	mounts := hostMounts()
	err = s.start(ctx)
	if err == nil {
		err = s.work(ctx)
	}
	if err = errors.Join(err, s.stop(mounts)); err != nil {
		return nil, err
	}
	return &s.res, nil
}

// start starts the daemons and gets their callers ready.
func (s *soak) start(ctx context.Context) error {
	for _, serve := range []func(context.Context, ...string) (*rig.Daemon, error){s.rig.Serve, s.rig.ServeHTTP} {
		d, err := serve(ctx)
		if err != nil {
			return err
		}
		s.daemons = append(s.daemons, d)
		sessions, err := d.Takes(ctx, "execute_code", "session_id")
		if err != nil {
			return err
		}
		for i := range callers {
			client, err := d.Connect(ctx)
			if err != nil {
				return err
			}
			s.callers = append(s.callers, &caller{
				Client: client, name: fmt.Sprintf("c%d", len(s.callers)),
				// A tenant has room for eight interpreters in each daemon.
				sessions: sessions && i < callers/2,
			})
		}
	}
	return nil
}

// work measures the saturation, and then soaks.
func (s *soak) work(ctx context.Context) error {
	measured := min(max(s.cfg.Duration/20, time.Second), 20*time.Second)
	s.cfg.Log(fmt.Sprintf("measuring saturation for %v", measured))
	asked := s.flood(ctx, measured)
	s.res.Saturation = float64(asked) / measured.Seconds()
	s.res.Rate = s.res.Saturation / 2
	s.res.Asked = map[string]int{}
	s.cfg.Log(fmt.Sprintf("saturated at %.0f executions a second; going on at half of it for %v", s.res.Saturation, s.cfg.Duration))
	timed, cancel := context.WithTimeout(ctx, s.cfg.Duration)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(timed) })
	s.pace(timed)
	watching.Wait()
	return context.Cause(ctx)
}

// flood has every caller ask as fast as it is answered, and returns how many
// answers came.
func (s *soak) flood(ctx context.Context, d time.Duration) (asked int) {
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range s.callers {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				s.ask(ctx, c)
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

// pace has questions asked at the rate, by whichever caller is free. What nobody
// is free for is dropped: a queue of ours would hide that the program is slow.
func (s *soak) pace(ctx context.Context) {
	due := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range s.callers {
		wg.Go(func() {
			for range due {
				s.ask(context.WithoutCancel(ctx), c)
			}
		})
	}
	defer wg.Wait()
	defer close(due)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; sent < int(time.Since(began).Seconds()*s.res.Rate); sent++ {
			select {
			case due <- struct{}{}:
			default:
				s.res.Late++
			}
		}
	}
}

// ask asks one question of the mix and notes a wrong answer.
func (s *soak) ask(ctx context.Context, c *caller) {
	n := s.number.Add(1)
	q := pick(n)
	if q.name == "session" && !c.sessions {
		q = mix[0]
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // longer than the queue lets anybody wait
	defer cancel()
	err := q.ask(ctx, c, fmt.Sprintf("%s-%d", c.name, n), n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.res.Asked[q.name]++
	if err != nil {
		s.wrong(fmt.Sprintf("%s: %v", q.name, err))
	}
}

func (s *soak) wrong(what string) {
	s.res.Wrong++
	if len(s.res.Examples) < 20 {
		s.res.Examples = append(s.res.Examples, what)
	}
}

// stop ends the daemons and looks at what they left.
func (s *soak) stop(mounts int) error {
	var all []rig.Process
	for _, d := range s.daemons {
		all = append(all, rig.Tree(d.PID())...)
	}
	names, watch := s.rig.Names(), rig.NewWatch(all)
	for _, c := range s.callers {
		_ = c.Close()
	}
	var errs []error
	for _, d := range s.daemons {
		errs = append(errs, d.Close())
	}
	left := func(what string, n int) {
		if n > 0 {
			s.res.Left = append(s.res.Left, fmt.Sprintf("%d %s", n, what))
		}
	}
	left("processes", len(watch.Ended(context.Background(), 30*time.Second)))
	left("control groups", len(rig.Groups(names)))
	left("lock files", len(s.rig.Names()))
	left("mounts", hostMounts()-mounts)
	return errors.Join(errs...)
}
