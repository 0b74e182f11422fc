// Package feature defines what one capability adds to the core.
//
// A feature is a package below this one that contains everything of its own: its data, its host calls and
// their Python, its tools and its commands. It imports the core, and no other feature; the core iterates
// over a list of features and names none. Package all has the list. A program without a feature works.
package feature

import (
	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
)

// Feature is one capability. Fields that are not set add nothing.
type Feature struct {
	daemon.Feature
	Docs string // its page in docs/
	// Commands returns its commands for the program. Those without a group of the help are listed as others;
	// those of a command that the program has are added to that.
	Commands func(*cli.Env) []*cobra.Command
}

// OfDaemon returns what the features add to a daemon.
func OfDaemon(all []Feature) []daemon.Feature {
	parts := make([]daemon.Feature, len(all))
	for i, f := range all {
		parts[i] = f.Feature
	}
	return parts
}
