package daemon

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// layer returns the configured packages. It returns nil and logs the remedy if they
// cannot be used; code then runs without them. It fails if they may be usable later.
func (m backendMaker) layer(ctx context.Context) (*python.Layer, error) {
	cfg := m.cfg.Packages
	cfg.Log = m.log
	if cfg.IsEmpty() {
		return nil, nil
	}
	layer, lock, err := packages.Open(ctx, cfg)
	if fault.Inconclusive(err) {
		return nil, err
	}
	if err != nil {
		m.log.Warn("code runs without packages: "+fault.Message(err), "hint", fault.Hint(err))
		return nil, nil
	}
	if why := lock.StaleReason(cfg); why != "" {
		m.log.Warn("the installed packages do not match the configuration: "+why, "hint",
			"run `sandpiper packages lock`, then `sandpiper packages install`")
	}
	return layer, nil
}

// addLibraries adds the host libraries that native code in packages loads.
func (m backendMaker) addLibraries(all map[string]string, layer *python.Layer, in *python.Installation) error {
	more, missing, err := layer.SystemLibraries(in)
	if fault.Inconclusive(err) {
		return err
	}
	if err != nil || len(missing) > 0 {
		m.log.Warn("some packages cannot be imported: this host lacks their libraries", "libraries", strings.Join(missing, " "), "error",
			err)
	}
	for from, to := range more {
		if _, had := all[from]; !had {
			all[from] = to
		}
	}
	return nil
}
