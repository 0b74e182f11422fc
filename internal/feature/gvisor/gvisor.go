// Package gvisor is the sandbox backend that runs code on a second kernel: gVisor's
// sentry, a program that implements Linux in user space. It starts an external runsc
// through its command line, as root and as an ordinary user.
//
// A sandbox is one runsc container with one interpreter, the worker. It serves one
// execution or one session of one tenant and is then destroyed. Its mounts and limits are
// fixed when runsc starts, so the pool keeps waiting sandboxes for recently used specs. The
// worker speaks the protocol of package worker over one passed socket.
//
// The kernel of the host sees three kinds of process for a sandbox: runsc, which waits for
// it, the gofer, which opens files, and the sentry with its stub processes, in which the
// code runs. All die with the daemon, by the parent death signal.
//
// A Backend is safe for concurrent use. The package has no queue: package admit bounds
// concurrent executions.
package gvisor
