// Package keeper is the process that owns the namespaces of a sandbox backend: pid 1
// of its pid namespace. It builds the private root, starts zygotes, and alone sees the
// roots of the mounts.
//
// A program that imports this package becomes a keeper when it is started with Name
// as its argv[0]; see init. The package must therefore import only packages that are
// initialized early, which a test checks.
package keeper

import "syscall"

// Name is argv[0] of a keeper.
const Name = "sandpiper-sandbox-keeper"

// The daemon sends Init, then each Request, as one JSON object in one packet, over
// descriptor 3 of the keeper, and receives an Answer to each.

// MaxMessage is the largest message in bytes.
const MaxMessage = 128 << 10

// Init is the first message.
type Init struct {
	Python    string            // directory of the interpreter
	Libraries map[string]string // host path -> path inside
	Packages  string            // directory of packages, or ""
	Roots     map[string]string // key -> host directory
	Disabled  []string          // layers
	Filter    []byte            // seccomp program to load after setup
}

// Request has the operation "zygote", with the control socket and the stderr of the
// new zygote as descriptors, "bind", or "place", with the pidfd and the directory in procfs of
// an unbound worker.
type Request struct {
	Op    string
	Apart bool    // for zygote: in a pid and an IPC namespace of its own
	Mount []Mount // for bind and place

	Inside, ID int   // for place: the ids in the namespace of the worker and in the keeper's
	TmpBytes   int64 // for place: size of /tmp and of /dev/shm
}

// Mount is one directory to bind: the entry Name of the root with key Root.
type Mount struct {
	Root, Name string
	Target     string // for place
	ReadOnly   bool
}

// Answer comes with a pidfd of a zygote, or a detached mount for each Mount.
type Answer struct {
	Error string // "" means success
	Step  string // the failed step
	Errno syscall.Errno
}
