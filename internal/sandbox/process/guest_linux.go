package process

// Backends whose worker has no zygote use the following.

// WorkerFilter returns the seccomp program of a worker.
func WorkerFilter() []byte { return filter(workerRules()) }

// Descendants returns pid and all its descendants.
func Descendants(pid int) []int { return descendants(pid, nil) }
