package process

import (
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Config of a process backend.
type Config struct {
	// In Config, a module of Preload that fails, hangs, crashes, starts threads or maps shared memory is skipped with
	// a warning. Its code has the privileges of a worker, which are checked from outside. Only the keeper sees Roots.
	sandbox.Config
	// IdleWorkers is the number of unbound workers to keep; 0 means 2.
	IdleWorkers int
	// BoundWorkers is the number of workers to bind in advance for each recently
	// used spec; 0 means 4.
	BoundWorkers int
	// ZygoteAge and ZygoteForks bound the use of a zygote before it is replaced;
	// 0 means one hour and 10,000 forks.
	ZygoteAge   time.Duration
	ZygoteForks int
	// OwnNamespaces gives each worker a network and an IPC namespace of its own, instead of
	// those that the workers of a zygote share. It costs about a millisecond for each worker.
	OwnNamespaces bool
	// Epoll allows epoll, which Polars and other libraries in Rust need. Its watches use memory of
	// the kernel, which counts as that of the worker, and count against the limit of its host user.
	Epoll bool
	// Disabled lists isolation layers to leave out, so that a test can prove that an
	// attack succeeds without them: root, user, pid, mount, net, ipc, uts, cgroup,
	// capabilities, no_new_privs, landlock, seccomp, rlimits, cgroups, noexec. It is
	// empty outside tests.
	Disabled []string

	// killUnlisted kills a process that makes a system call which is in no list, so
	// that a test finds calls missing from the lists.
	killUnlisted bool
	// withoutCgroups makes a backend as on a host that grants no cgroup, withoutKcmp as on one
	// that refuses kcmp(2).
	withoutCgroups, withoutKcmp bool
	// socketBytes is the capacity of a socket; 0 means that of the host.
	socketBytes int64
	// startTimeout bounds the time in which a keeper builds the private root, and a zygote
	// starts its interpreter; 0 means 30 s.
	startTimeout time.Duration
	// importTimeout bounds the import of one module of Preload; 0 means 30 s.
	importTimeout time.Duration
}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	for _, f := range []struct {
		field *int
		value int
	}{{&c.IdleWorkers, 2}, {&c.BoundWorkers, 4}, {&c.ZygoteForks, 10_000}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if c.ZygoteAge == 0 {
		c.ZygoteAge = time.Hour
	}
	for _, timeout := range []*time.Duration{&c.importTimeout, &c.startTimeout} {
		if *timeout == 0 {
			*timeout = 30 * time.Second
		}
	}
	return c
}
