// Package tenants measures the program as a service of many tenants over HTTP.
//
// Load compares the rate of a thousand tenants with that of one, under the same load, and
// Active the time of a call of tenants that call in turn. Noisy measures a tenant while
// another one exceeds its quotas tenfold, and Outputs one while another one has large
// outputs. Idle measures the start and the memory of a daemon with ten thousand tenants. Each run has a
// directory of its own, and only one may be active at a time. An error is returned only if
// the run is not possible; the problems that it finds are in its result.
package tenants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/bench/host"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// Config of all runs.
type Config struct {
	Binary string       // the program; required
	Log    func(string) // called with progress messages; nil discards them
}

func (c Config) log(format string, args ...any) {
	if c.Log != nil {
		c.Log(fmt.Sprintf(format, args...))
	}
}

// withRig calls do with a rig whose directory exists until do returns.
func (c Config) withRig(ctx context.Context, do func(r *rig.Rig) error) (err error) {
	dir, err := os.MkdirTemp("", "sandpiper-tenants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := rig.New(rig.Config{Binary: c.Binary, Dir: dir, Token: token(uid(0))})
	if err := r.Ready(ctx); err != nil {
		return err
	}
	if err := do(r); err != nil {
		return fmt.Errorf("%w; the daemon logged: %s", err, logged(r))
	}
	return nil
}

// settings is a configuration file.
type settings = map[string]any

// configure writes a configuration with the tokens of n tenants.
func configure(r *rig.Rig, n int, more settings) error {
	tokens := map[string]string{}
	for i := range n {
		tokens[uid(i)] = token(uid(i))
	}
	all := settings{
		"log":     settings{"level": "warn", "file": logFile(r)},
		"http":    settings{"tokens": tokens},
		"servers": settings{"upstream": r.Upstream()},
	}
	for key, value := range more {
		all[key] = value
	}
	return r.Configure(all)
}

func logFile(r *rig.Rig) string { return filepath.Join(r.Dir(), "daemon.log") }

// logged returns the end of the daemon's log.
func logged(r *rig.Rig) string {
	text, _ := os.ReadFile(logFile(r))
	return string(text[max(0, len(text)-2000):])
}

// uid returns the id of the nth tenant.
func uid(n int) string { return fmt.Sprintf("customer_%d", n) }

func token(uid string) string { return "the-token-of-" + uid }

// percentile returns the p-th percentile.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// memory returns the PSS of a daemon alone, and of all its processes.
func memory(d *rig.Daemon) (daemon, all int64) {
	for _, p := range rig.Tree(d.PID()) {
		n := rig.PSS(p.PID)
		if all += n; p.Part == "daemon" {
			daemon += n
		}
	}
	return daemon, all
}

// cpu returns the processor time of a daemon, and of its keepers and zygotes with the
// workers that have ended.
func cpu(d *rig.Daemon) (daemon, children time.Duration) {
	for _, p := range rig.Tree(d.PID()) {
		switch p.Part {
		case "daemon":
			daemon += host.CPU(p.PID)
		case "keeper", "zygote":
			children += host.CPU(p.PID)
		}
	}
	return daemon, children
}
