// Package process is the sandbox backend that isolates with the Linux kernel
// alone: namespaces, a private root, no capabilities, Landlock, a seccomp
// allow-list, resource limits, and a cgroup where the host grants one. It
// works as root and as an ordinary user by the same path and starts no other
// program than itself and the embedded CPython.
//
// Three kinds of process take part. The keeper, the program re-executed, is
// pid 1 of the namespaces, builds the private root, and alone sees the
// directories that mounts come from. A zygote is a warm interpreter that forks
// workers and never hears of a tenant. A worker waits, is bound to one tenant,
// seals itself, runs one sandbox's programs and is killed.
//
// A Backend is safe for concurrent use. When the daemon dies, however it dies,
// the keeper's control socket closes and the kernel ends everything with it;
// the next Backend removes the cgroups left behind.
//
// The package does not queue: package admit bounds how many run at once.
package process
