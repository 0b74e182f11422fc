// Package soak runs the program under load for some time and checks its stability.
//
// Two daemons share a data directory, one over stdio and one over HTTP. First their
// saturation, the maximum throughput in operations a second, is measured with a mix of
// operations. Then the same mix runs at half of that rate: sums, files, skills,
// sessions, exceptions, time and memory limits, and a megabyte of output. Every result
// is checked to belong to its operation. Samples are taken every few seconds of all
// resources that could leak: memory, descriptors, processes, mounts, cgroups and disk.
// Rule describes how growth is detected.
//
// Only one Run may be active at a time. It returns an error only if it cannot run; the
// problems that it finds are in the Result.
package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/host"
	"github.com/sandpiper-mcp/sandpiper/bench/mix"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// Config of a run.
type Config struct {
	Binary   string        // the program; required
	Duration time.Duration // at half of saturation; 0 means 10 minutes
	Every    time.Duration // between two samples; 0 means 5 s
	Log      func(string)  // called with progress messages; nil discards them
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

// Result is the result of a run.
type Result struct {
	Saturation float64        // operations a second
	Rate       float64        // target rate of the run after that
	Operations map[string]int // by kind, without those that measured saturation
	Skipped    int            // operations skipped because all callers were busy
	Failures   int            // wrong results and errors, also while saturation was measured
	Examples   []string       // of wrong results and errors
	Every      time.Duration  // between two samples
	Samples    []Sample
	Left       []string // resources that the daemons left behind
}

// callersPerDaemon equals the executions that a daemon runs concurrently by default.
const callersPerDaemon = 8

// soak is one run.
type soak struct {
	cfg     Config
	rig     *rig.Rig
	daemons []*rig.Daemon
	callers []*mix.Caller
	number  atomic.Int64 // of the latest operation

	mu  sync.Mutex
	res Result
}

// Run runs the program under load and returns the measurements and the problems found.
func Run(ctx context.Context, cfg Config) (_ *Result, err error) {
	cfg = cfg.withDefaults()
	dir, err := os.MkdirTemp("", "sandpiper-soak-")
	if err != nil {
		return nil, err
	}
	s := &soak{cfg: cfg, rig: rig.New(rig.Config{Binary: cfg.Binary, Dir: dir}),
		res: Result{Operations: map[string]int{}, Every: cfg.Every}}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := s.rig.Ready(ctx); err != nil {
		return nil, err
	}
	mounts := hostMounts()
	err = s.start(ctx)
	if err == nil {
		err = s.measureAndSoak(ctx)
	}
	if err = errors.Join(err, s.stop(mounts)); err != nil {
		return nil, err
	}
	return &s.res, nil
}

// start starts the daemons and connects the callers.
func (s *soak) start(ctx context.Context) error {
	for _, serve := range []func(context.Context, ...string) (*rig.Daemon, error){s.rig.Serve, s.rig.ServeHTTP} {
		d, err := serve(ctx)
		if err != nil {
			return err
		}
		s.daemons = append(s.daemons, d)
		for i := range callersPerDaemon {
			client, err := d.Connect(ctx)
			if err != nil {
				return err
			}
			s.callers = append(s.callers, &mix.Caller{
				Client: client, Name: fmt.Sprintf("c%d", len(s.callers)),
				// A tenant has at most eight live interpreters in a daemon. Half as many
				// callers leave room for sessions that were left but have not ended.
				NoSessions: i >= callersPerDaemon/2,
			})
		}
	}
	return nil
}

// measureAndSoak measures the saturation, and then runs at half of it.
func (s *soak) measureAndSoak(ctx context.Context) error {
	measured := min(max(s.cfg.Duration/20, time.Second), 20*time.Second)
	s.cfg.Log(fmt.Sprintf("measuring saturation for %v", measured))
	operations := s.saturate(ctx, measured)
	s.res.Saturation = float64(operations) / measured.Seconds()
	s.res.Rate = s.res.Saturation / 2
	s.res.Operations = map[string]int{}
	s.cfg.Log(fmt.Sprintf("saturation is %.0f operations a second; running at half of that for %v", s.res.Saturation, s.cfg.Duration))
	timed, cancel := context.WithTimeout(ctx, s.cfg.Duration)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(timed) })
	s.pace(timed)
	watching.Wait()
	return context.Cause(ctx)
}

// saturate runs all callers without pauses and returns the number of operations.
func (s *soak) saturate(ctx context.Context, d time.Duration) (operations int) {
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range s.callers {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				s.run(ctx, c)
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return int(n.Load())
}

// pace starts operations at the rate on any free caller. If none is free, the operation is
// skipped: a queue would hide that the program is slow.
func (s *soak) pace(ctx context.Context) {
	due := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range s.callers {
		wg.Go(func() {
			for range due {
				s.run(context.WithoutCancel(ctx), c)
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
				s.res.Skipped++
			}
		}
	}
}

// run performs one operation of the mix and records a wrong result or an error.
func (s *soak) run(ctx context.Context, c *mix.Caller) {
	n := s.number.Add(1)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // longer than the program's queue timeout
	defer cancel()
	name, err := c.Run(ctx, mix.All, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.res.Operations[name]++
	if err != nil {
		s.addFailure(fmt.Sprintf("%s: %v", name, err))
	}
}

func (s *soak) addFailure(what string) {
	s.res.Failures++
	if len(s.res.Examples) < 20 {
		s.res.Examples = append(s.res.Examples, what)
	}
}

// stop stops the daemons and checks for resources that they left.
func (s *soak) stop(mounts int) error {
	var all []rig.Process
	for _, d := range s.daemons {
		all = append(all, rig.Tree(d.PID())...)
	}
	names, watch := host.DaemonNames(s.rig), host.NewWatch(all)
	for _, c := range s.callers {
		_ = c.Close()
	}
	var errs []error
	for _, d := range s.daemons {
		errs = append(errs, d.Close())
	}
	addLeft := func(what string, n int) {
		if n > 0 {
			s.res.Left = append(s.res.Left, fmt.Sprintf("%d %s", n, what))
		}
	}
	addLeft("processes", len(watch.WaitExited(context.Background(), 30*time.Second)))
	addLeft("cgroups", len(host.Groups(names)))
	addLeft("lock files", len(host.DaemonNames(s.rig)))
	addLeft("mounts", hostMounts()-mounts)
	return errors.Join(errs...)
}
