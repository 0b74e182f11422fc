package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Config of a process backend.
type Config struct {
	// Python is the directory of the interpreter. It contains bin/, lib/ and the
	// package sandpiper of internal/sandbox/worker/python. Required.
	Python string
	// Libraries are the files of the host's C library that the interpreter
	// needs: path on the host to path inside. Required.
	Libraries map[string]string
	// Packages is a directory of packages that code may import, mounted read-only
	// at /packages; "" means none.
	Packages string
	// Intact reports whether Python and Packages are unchanged since installation.
	// With thorough it checks every file. If it returns false, Open and the affected
	// Run fail with sandbox.ErrDamaged. Nil disables the check.
	Intact func(thorough bool) bool
	// Preload lists modules that a zygote imports before it forks. A module that
	// fails, hangs, crashes, starts threads or maps shared memory is skipped with a warning.
	// Module code has the privileges of a worker, which are checked from outside; nil
	// means none.
	Preload []string
	// Roots are the directories that mounts may name, by key. Only the keeper
	// sees them. Required for "workspaces".
	Roots map[string]string
	// State is a directory in which the backend holds a lock file while it runs.
	// A later backend uses it to find the remains of daemons that died. Required.
	State string
	// Defaults for limits that a Spec leaves at zero; zero fields mean 500 MiB,
	// 128 processes, 256 open files, 1 GiB per file, 600 s of CPU, 64 MiB of result.
	Defaults sandbox.Limits
	// Usage measures a directory below a root: bytes on disk and number of names.
	// With an error it returns a lower bound. Nil disables the limits on workspaces.
	Usage func(ctx context.Context, dir string) (bytes, files int64, err error)
	// Reserve is the free disk space below which code that adds to its workspace is
	// killed; 0 means none.
	Reserve int64
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
	// Log receives events of keepers, zygotes and workers; nil discards.
	Log *slog.Logger
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
	c.Defaults = c.Defaults.WithDefaults(sandbox.DefaultLimits())
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
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
