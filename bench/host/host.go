// Package host reads what daemons use of a machine and what they leave behind: processes, descriptors,
// mounts, cgroups and disk. On other systems than Linux everything is empty.
package host

import (
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// DaemonNames returns the names of the daemons of a rig that have sandboxes, or
// that were killed before they removed their lock files.
func DaemonNames(r *rig.Rig) (names []string) {
	locks, _ := filepath.Glob(filepath.Join(r.Data(), "run", "sandpiper-*.lock"))
	for _, l := range locks {
		names = append(names, strings.TrimSuffix(filepath.Base(l), ".lock"))
	}
	return names
}
