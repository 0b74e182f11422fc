// Package process is the sandbox backend that isolates with the Linux kernel
// alone: namespaces, a private root, no capabilities, Landlock, a seccomp
// allow-list, resource limits, and a cgroup where the host grants one. It
// works the same way as root and as an ordinary user and starts only itself and
// the embedded CPython.
//
// There are three kinds of process. The keeper, the program re-executed, is pid 1
// of the namespaces, builds the private root, and alone sees the source directories
// of mounts. A zygote is a warm interpreter that forks workers and holds no tenant
// data. A worker waits, is bound to one tenant, locks itself down, runs the
// programs of one sandbox and is killed.
//
// A Backend is safe for concurrent use. When the daemon dies for any reason, the
// keeper's control socket closes and the kernel kills all processes in its pid
// namespace; the next Backend removes the remaining cgroups.
//
// The package has no queue: package admit bounds concurrent executions.
package process
