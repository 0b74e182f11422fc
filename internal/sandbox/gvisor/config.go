package gvisor

import (
	"context"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Config of a gVisor backend. Python, Libraries, Packages, Intact, Roots, State, Defaults, Usage
// and Reserve are those of process.Config.
type Config struct {
	// Runsc is the path of gVisor's program; "" means runsc on PATH.
	Runsc     string
	Python    string
	Libraries map[string]string
	Packages  string
	Intact    func(thorough bool) bool
	// Preload lists modules that each sandbox imports while it waits. A module that fails is
	// skipped with a warning.
	Preload  []string
	Roots    map[string]string
	State    string
	Defaults sandbox.Limits
	Usage    func(ctx context.Context, dir string) (bytes, files int64, err error)
	Reserve  int64
	// Waiting is the number of sandboxes that wait for each recently used spec; 0 means 2.
	Waiting int
	// Log receives events; nil discards.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Defaults = c.Defaults.WithDefaults(sandbox.DefaultLimits())
	if c.Waiting == 0 {
		c.Waiting = 2
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
