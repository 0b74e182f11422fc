package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
)

// options of a daemon that differ between commands.
type options struct {
	flags  map[string]string // configuration keys given as flags
	output func(item []byte) // see daemon.Config
	quiet  bool              // no log on stderr: a person asked for one thing, and reads what came of it
}

// daemon builds the daemon that a command works with.
func (a *app) daemon(o options) (*daemon.Daemon, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	cfg, err := config.Load(config.Sources{Dir: dir, File: a.config, Environ: os.Environ(), Flags: o.flags})
	if err != nil {
		return nil, err
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
		Config: *cfg, Version: buildVersion(), Stderr: log, Installing: a.installing(), Output: o.output,
	})
}

func (a *app) warn(sentence string) {
	fmt.Fprintln(a.stderr, styleFor(a.stderr).yellow("warning:"), visible(sentence))
}

// installing shows how far the first use is, on a terminal.
func (a *app) installing() func(stage string, done, total int) {
	if !isTerminal(a.stderr) {
		return nil
	}
	var once sync.Once
	return func(stage string, done, total int) {
		once.Do(func() { fmt.Fprintln(a.stderr, "Preparing Python for its first use; this happens once.") })
		end := "\r"
		if done == total {
			end = "\n"
		}
		fmt.Fprintf(a.stderr, "  %-8s %d of %d files%s", stage, done, total, end)
	}
}
