package main

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
)

// options of a daemon that differ between commands.
type options struct {
	flags  map[string]string // configuration keys given as flags
	output func(item []byte) // see daemon.Config
	served bool              // over HTTP
	quiet  bool              // no log on stderr: a person asked for one thing, and reads what came of it
}

// daemon builds the daemon that a command works with.
func (a *app) daemon(o options) (*daemon.Daemon, error) {
	cfg, err := a.load(o.flags)
	if err != nil {
		return nil, err
	}
	if o.output != nil && !cfg.Packages.IsEmpty() { // somebody watches code that is about to run
		if _, err := packages.Stat(cfg.Packages); err != nil {
			a.warn("code runs without packages: " + errorText(err))
		}
	}
	log := a.stderr
	if o.quiet && cfg.Log.Level > slog.LevelDebug {
		log = nil
		for _, w := range cfg.Warnings {
			a.warn(w)
		}
		cfg.Warnings = nil
	}
	return daemon.New(daemon.Config{
		Config: *cfg, Version: buildVersion(), Stderr: log, Console: a.stderr, Installing: a.installing(preparing), Output: o.output, Served: o.served,
	})
}

// preparing is said when Python is unpacked.
const preparing = "Preparing Python for its first use; this happens once."

// installing shows how far an installation is, on a terminal.
func (a *app) installing(what string) func(stage string, done, total int) {
	if !isTerminal(a.stderr) {
		return nil
	}
	var once sync.Once
	return func(stage string, done, total int) {
		once.Do(func() { fmt.Fprintln(a.stderr, what) })
		end := "\r"
		if done == total {
			end = "\n"
		}
		fmt.Fprintf(a.stderr, "  %-8s %d of %d files%s", stage, done, total, end)
	}
}
