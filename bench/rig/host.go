package rig

import (
	"path/filepath"
	"strings"
)

// Part is what a process is for: "daemon", "keeper", "zygote" or "worker".
type Part string

// Process is one process of a daemon.
type Process struct {
	PID  int
	Part Part
}

// Names are the names of the daemons that have sandboxes in this rig, or died
// without giving theirs back.
func (r *Rig) Names() (names []string) {
	locks, _ := filepath.Glob(filepath.Join(r.Data(), "run", "sandpiper-*.lock"))
	for _, l := range locks {
		names = append(names, strings.TrimSuffix(filepath.Base(l), ".lock"))
	}
	return names
}
