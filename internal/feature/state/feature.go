// Package state stores small JSON values of a tenant by name, for code that continues where
// earlier code stopped.
//
// Each change gives a name a new version, so that a writer can replace only what it has read.
// Values are encrypted and bound to their name. A Store is safe for concurrent use, and several
// processes may have one for the same database.
package state

import (
	"embed"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

//go:embed state.py
var python embed.FS

// Feature returns the feature: save_state and get_state as functions of code and as tools, and the
// command state.
func Feature() feature.Feature {
	return feature.Feature{
		Feature:  daemon.Feature{Name: "state", Python: python, Start: start},
		Docs:     "state.md",
		Commands: commands,
	}
}

func start(daemon.Core) (daemon.Part, error) {
	return daemon.Part{Tools: Tools(), HostCalls: HostCalls()}, nil
}
