package daemon

import (
	"fmt"
	"os"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
)

// Load loads a configuration for this process: src with the working directory and the
// environment of the process.
func Load(src config.Sources) (*config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	src.Dir, src.Environ = dir, os.Environ()
	return config.Load(src)
}
