package rig

// Part is the role of a process: "daemon", "keeper", "zygote" or "worker".
type Part string

// Process is one process of a daemon.
type Process struct {
	PID  int
	Part Part
}
