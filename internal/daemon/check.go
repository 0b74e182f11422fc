package daemon

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// Check returns the errors with which New or ServeHTTP refuse a configuration, and the warnings that
// New logs. It compiles the same parts, but neither opens the data directory nor starts anything.
func Check(c *config.Config, features []Feature) (warnings []string, err error) {
	d := &Daemon{cfg: Config{Config: *c, Features: features}, data: &data{dataDir: dataDir(c.DataDir)}}
	s, err := reloader{d}.newState(c)
	if err != nil {
		return nil, err
	}
	servers, err := newServerSet(c)
	if err != nil {
		return nil, err
	}
	warnings = slices.Concat(warnings, c.Warnings, config.Unusable(c))
	var all policy.Inventory
	for _, one := range servers.configured {
		all.Servers = append(all.Servers, one.Name)
	}
	for _, f := range s.policy.Findings(all) {
		warnings = append(warnings, f.String())
	}
	_, key := openMaster(c, slog.New(slog.DiscardHandler)) // which runs no command
	_, tls := HTTP{d}.openTLS(nil)
	return warnings, errors.Join(key, tls, checkEmbedder(d.cfg))
}

// checkEmbedder creates the model of search, and does not call it.
func checkEmbedder(c Config) error {
	m, err := embedder(c, slog.New(slog.DiscardHandler))
	if m == nil {
		return err
	}
	return m.Close()
}
