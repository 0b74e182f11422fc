// Package confine runs a function of this program on untrusted input in a process of its own
// that can do nothing but compute: it reads its standard input, writes its standard output,
// and ends.
//
// A package that parses untrusted input calls Main from its init with a name and the function.
// Run starts this program again under that name; Main then takes over before the function main,
// locks the process down, and only then reads the input. Functions init that ran earlier, of
// this program or of one that embeds it, have seen none of the input.
//
// The lockdown consists of independent layers: an empty environment; no descriptors but the
// three standard ones and the runtime's poller, and none can be added; no capabilities, and as root the uid of nobody;
// no_new_privs; Landlock without any path or port; a seccomp allow list without calls that
// take a path, an address or another process; limits on memory, processor time and output; a
// deadline. A layer that cannot be applied ends the process, except Landlock in kernels that lack
// it, and in a build with cgo, where it applies to one thread.
//
// Run is safe for concurrent use. The package does not limit the number of processes, and does
// not interpret the output.
package confine

import (
	"fmt"
	"time"
)

// Limits of one process. Zero fields take their defaults.
type Limits struct {
	MemoryBytes int64         // data that the process may allocate; 0 means 512 MiB
	CPU         time.Duration // processor time, rounded up to seconds; 0 means 10 s
	Wall        time.Duration // time; 0 means 30 s
	OutputBytes int           // 0 means 16 MiB
}

func (l Limits) withDefaults() Limits {
	if l.MemoryBytes == 0 {
		l.MemoryBytes = 512 << 20
	}
	if l.CPU == 0 {
		l.CPU = 10 * time.Second
	}
	if l.Wall == 0 {
		l.Wall = 30 * time.Second
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = 16 << 20
	}
	l.MemoryBytes, l.CPU = l.MemoryBytes*slack, l.CPU*slack
	return l
}

// Reason is why a process ended without an answer.
type Reason string

const (
	OutOfTime   Reason = "time"   // it used up its processor time or its time
	OutOfMemory Reason = "memory" // it used up its memory
	TooLong     Reason = "output" // its answer exceeds the limit
	Crashed     Reason = "crash"  // it failed in another way
)

// Failure means that the process ended without an answer, which is the fault of the input.
type Failure struct {
	Reason Reason
	Detail string // the end of its standard error and its exit status; for logs
}

func (f *Failure) Error() string {
	return fmt.Sprintf("the confined process ended (%s): %s", f.Reason, f.Detail)
}
