package chaos

import (
	"context"
	"errors"
	"fmt"
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

// problem is an error of the program under test.
type problem struct{ what, text string }

func (p problem) Error() string { return p.what + ": " + p.text }

func problemf(what, format string, args ...any) error {
	return problem{what, fmt.Sprintf(format, args...)}
}

// round is work of one kind, whose daemon is killed.
type round struct {
	kind        kind
	name        string
	cfg         Config
	seed        uint64
	random      *rand.Rand
	took        time.Duration // by the work if nothing is killed
	daemonCount int
	rig         *rig.Rig
	ids         []string // of the writes
	names       map[string]bool
	user
	dying sync.Mutex // held while a daemon and its processes are killed

	start    time.Duration  // until the work began
	kills    int            // of daemons
	count    map[string]int // by column of the result
	problems []error
}

func (r *round) file() string { return filepath.Join(r.rig.Dir(), "effects") }

// run does the work, kills daemons, and checks the effects.
func (r *round) run(ctx context.Context, kills int) error {
	began := time.Now()
	defer os.RemoveAll(r.rig.Dir())
	if err := r.prepare(ctx); err != nil {
		return err
	}
	var daemons []*rig.Daemon
	for ended := false; !ended; {
		for len(daemons) == 0 || r.lives == 0 && len(daemons) < r.daemonCount {
			d, err := r.rig.ServeHTTP(ctx)
			if err != nil {
				return err
			}
			daemons = append(daemons, d)
		}
		if r.lives == 0 {
			r.start = time.Since(began)
		}
		var victim *rig.Daemon
		d, i := daemons[0], 0
		if r.kills < kills {
			if len(daemons) > 1 && r.kind.anywhere {
				i = r.random.IntN(2)
			}
			victim = daemons[i]
			daemons = slices.Delete(daemons, i, i+1)
		}
		ended = r.live(ctx, d, victim) || context.Cause(ctx) != nil
	}
	for _, d := range daemons {
		if len(r.problems) > 0 { // it may be stuck
			d.Kill()
		} else if err := d.Close(); err != nil {
			r.add(problemf("failed", "stop the daemon: %v", err))
		}
	}
	r.checkLeft(ctx)
	r.checkEffects()
	return context.Cause(ctx)
}

func (r *round) prepare(ctx context.Context) error {
	command := r.cfg.Upstream(r.file())
	settings := rig.Args{
		"profile": "full",
		"servers": rig.Args{"ledger": rig.Args{"command": command[0], "args": command[1:], "trusted": true}},
	}
	for key, value := range r.kind.settings {
		settings[key] = value
	}
	if err := r.rig.Configure(settings); err != nil {
		return err
	}
	if r.kind.prepare != nil {
		return r.kind.prepare(ctx, r)
	}
	return nil
}

func (r *round) add(err error) {
	if err != nil {
		r.problems = append(r.problems, err)
	}
}

// live works with one daemon, and kills it, another one or none. It reports whether the round is over.
func (r *round) live(ctx context.Context, d, victim *rig.Daemon) bool {
	limited, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	ended := make(chan struct{})
	r.lives++
	r.asked = ""
	var err error
	go func() { defer close(ended); err = r.kind.drive(limited, r, d) }()
	if victim != nil {
		r.awaitMoment(ended)
		r.kill(ctx, victim, ended)
	}
	<-ended
	var found problem
	switch {
	case errors.As(err, &found):
	case victim == d && (err == nil || errors.Is(err, rig.ErrGone)):
		return false // with the next daemon the work continues, or is shown to be done
	case limited.Err() != nil:
		list, _ := r.rig.Run(ctx, "executions", "list", "--background", "--json")
		err = problemf("stuck", "%v with %d daemons: %v; in the background: %s", r.last, r.daemonCount, err, list)
	case err != nil:
		err = problemf("failed", "%v", err)
	}
	r.add(err)
	return true
}

// awaitMoment waits for a random moment of the work: any, or near a mark of a write.
func (r *round) awaitMoment(ended <-chan struct{}) {
	mark := []string{"", "", begin, effect, answer}[r.random.IntN(5)]
	n, after := r.random.IntN(max(1, r.kind.writes)), time.Duration(r.random.Int64N(int64(2*time.Millisecond)))
	if mark == "" {
		after = time.Duration(r.random.Int64N(int64(r.took)))
	}
	for mark != "" && readEffects(r.file()).total(mark) <= n {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-ended:
	case <-time.After(after):
	}
}

// kill kills the daemon and waits for the processes that it started, so that no upstream server has an
// effect afterwards.
func (r *round) kill(ctx context.Context, d *rig.Daemon, ended <-chan struct{}) {
	for _, n := range host.DaemonNames(r.rig) {
		r.names[n] = true
	}
	phase := readEffects(r.file()).phase()
	select {
	case <-ended:
		phase = "ended"
	default:
	}
	r.dying.Lock()
	defer r.dying.Unlock()
	watch := host.NewWatch(rig.Tree(d.PID()))
	d.Kill()
	r.kills++
	r.count["kills"]++
	r.count[phase]++
	if left := watch.WaitExited(ctx, 30*time.Second); len(left) > 0 {
		r.add(problemf("left", "%d processes of a killed daemon", len(left)))
	}
}

// checkLeft searches for resources of daemons after the last one has ended, and one more process has
// executed code.
func (r *round) checkLeft(ctx context.Context) {
	r.add(r.rig.Ready(ctx))
	if n := len(host.DaemonNames(r.rig)) + len(host.Groups(slices.Collect(maps.Keys(r.names)))); n > 0 {
		r.add(problemf("left", "%d locks and cgroups", n))
	}
}

// checkEffects checks that each write was made once, and that those that a kill interrupted were reported.
func (r *round) checkEffects() {
	all := readEffects(r.file())
	for id, n := range all[begin] {
		if n > all[answer][id] && r.decided[id] == nil {
			r.add(problemf("reported", "a kill interrupted %s, and nobody was asked", id))
		}
	}
	made := all[effect]
	for id, n := range made {
		if n > 1 {
			r.add(problemf("doubled", "%s was made %d times, decisions %v", id, n, r.decided[id]))
		}
	}
	for _, id := range r.ids {
		if made[id] == 0 && !r.optional[id] && len(r.problems) == 0 {
			r.add(problemf("lost", "%s was not made, decisions %v", id, r.decided[id]))
		}
	}
}
