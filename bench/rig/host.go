package rig

import (
	"path/filepath"
	"strings"
)

// Part is the role of a process: "daemon", "keeper", "zygote" or "worker".
type Part string

// Process is one process of a daemon.
type Process struct {
	PID  int
	Part Part
}

// DaemonNames returns the names of the daemons of this rig that have sandboxes, or
// that were killed before they removed their lock files.
func (r *Rig) DaemonNames() (names []string) {
	locks, _ := filepath.Glob(filepath.Join(r.Data(), "run", "sandpiper-*.lock"))
	for _, l := range locks {
		names = append(names, strings.TrimSuffix(filepath.Base(l), ".lock"))
	}
	return names
}
