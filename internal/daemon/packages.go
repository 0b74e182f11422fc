package daemon

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// layer returns the packages that the operator wants, nil if there are none to
// show: code then runs without them, and the log says what to do.
func (d *Daemon) layer(ctx context.Context) *python.Layer {
	cfg := d.cfg.Packages
	cfg.Log = d.log
	if cfg.None() {
		return nil
	}
	layer, lock, err := packages.Open(ctx, cfg)
	if err != nil {
		d.log.Warn("code runs without packages: "+fault.Message(err), "hint", fault.Hint(err))
		return nil
	}
	if why := lock.Stale(cfg); why != "" {
		d.log.Warn("the packages are those of the lock file: "+why, "hint", "run `sandpiper packages lock`, then `sandpiper packages install`")
	}
	return layer
}

// addLibraries adds to all what the host has of the libraries that machine code
// in packages loads.
func (d *Daemon) addLibraries(all map[string]string, layer *python.Layer, in *python.Installation) {
	more, missing, err := layer.SystemLibraries(in)
	if err != nil || len(missing) > 0 {
		d.log.Warn("some packages cannot be imported: this host lacks libraries that they load", "libraries", strings.Join(missing, " "), "error", err)
	}
	for from, to := range more {
		if _, had := all[from]; !had {
			all[from] = to
		}
	}
}
