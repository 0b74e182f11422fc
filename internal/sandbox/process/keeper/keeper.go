// Package keeper is the process that owns the namespaces of a sandbox backend: pid 1
// of its pid namespace. It builds the private root, starts zygotes, and alone sees the
// roots of the mounts.
//
// A program that imports this package becomes a keeper when it is started with Name
// as its argv[0]; see init. The package must therefore import only packages that are
// initialized early, which a test checks.
package keeper

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
// new zygote as descriptors, or "bind".
type Request struct {
	Op    string
	Mount []Mount // for bind
}

// Mount is one directory to bind: the entry Name of the root with key Root.
type Mount struct {
	Root, Name string
	ReadOnly   bool
}

// Answer comes with a pidfd of a zygote, or a detached mount for each Mount.
type Answer struct {
	Error string // "" means success
	Step  string // the failed step
}
