package gvisor

import "github.com/sandpiper-mcp/sandpiper/internal/sandbox"

// Config of a gVisor backend.
type Config struct {
	sandbox.Config // each sandbox imports Preload while it waits
	// Runsc is the path of gVisor's program; "" means runsc on PATH.
	Runsc string
	// Waiting is the number of sandboxes that wait for each recently used spec; 0 means 2.
	Waiting int
}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	if c.Waiting == 0 {
		c.Waiting = 2
	}
	return c
}
