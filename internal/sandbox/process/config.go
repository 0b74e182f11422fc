package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Config of a process backend.
type Config struct {
	// Python is the directory of the interpreter, with bin/, lib/ and the
	// package sandpiper of internal/sandbox/worker/python. Required.
	Python string
	// Libraries are the files of the host's C library that the interpreter
	// needs: path on the host to path inside. Required.
	Libraries map[string]string
	// Packages is a directory of packages that code may import, shown read-only
	// as /packages; "" means none.
	Packages string
	// Intact reports whether Python and Packages are still as installed; if thorough
	// is set it looks at every file. When they are not, Open and the Run that was
	// affected fail with sandbox.ErrDamaged. Nil means they always are.
	Intact func(thorough bool) bool
	// Preload are modules that a zygote imports before it forks. One that fails,
	// hangs, crashes or starts threads is left out, and said so. It runs before the
	// sandbox is sealed and is trusted like this program; nil means none.
	Preload []string
	// Roots are the directories that mounts may name, by key. Only the keeper
	// sees them. Required for "workspaces".
	Roots map[string]string
	// State is a directory of the daemon's where a lock file says that this
	// backend lives. Required: what dead daemons left is found by it.
	State string
	// Defaults for limits that a Spec leaves at zero; zero fields take 500 MiB,
	// 128 processes, 256 files, 1 GiB a file, 600 s of CPU, 64 MiB of result.
	Defaults sandbox.Limits
	// Usage measures a directory beneath a root: the bytes on disk and the number of
	// names. With an error it returns the least that there is. Nil means that
	// limits on a workspace are not enforced.
	Usage func(ctx context.Context, dir string) (bytes, files int64, err error)
	// Reserve is the free disk space below which code that adds to its workspace is
	// ended; 0 means none.
	Reserve int64
	// Idle is how many workers wait for any tenant; 0 means 2.
	Idle int
	// Ready is how many workers are bound ahead for a tenant that ran lately;
	// 0 means 4.
	Ready int
	// Age and Forks say when a zygote is replaced; 0 means one hour, 10,000.
	Age   time.Duration
	Forks int
	// Log of what happened to the machinery; nil discards.
	Log *slog.Logger
	// Off switches layers of isolation off, to prove in a test that an attack
	// would succeed without them. It is empty in every program.
	Off []string

	// loud kills a process that makes a system call which is in no list, so that
	// a test's load shows what the lists lack.
	loud bool
	// patience is how long the import of a module of Preload may take; 0 means 30 s.
	patience time.Duration
}

// The layers that Off may name.
var Layers = []string{
	"root", "user", "pid", "mount", "net", "ipc", "uts", "cgroup", "capabilities", "no_new_privs", "landlock", "seccomp", "rlimits", "cgroups", "noexec",
}

func (c Config) withDefaults() Config {
	c.Defaults = fill(c.Defaults, sandbox.Limits{
		MemoryBytes: 500 << 20, Processes: 128, OpenFiles: 256, FileBytes: 1 << 30, CPU: 600 * time.Second, ResultBytes: 64 << 20,
	})
	for _, f := range []struct {
		field *int
		value int
	}{{&c.Idle, 2}, {&c.Ready, 4}, {&c.Forks, 10_000}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if c.Age == 0 {
		c.Age = time.Hour
	}
	if c.patience == 0 {
		c.patience = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// fill returns l with its zero fields taken from d.
func fill(l, d sandbox.Limits) sandbox.Limits {
	for _, f := range []struct{ field, value *int64 }{
		{&l.MemoryBytes, &d.MemoryBytes}, {&l.FileBytes, &d.FileBytes}, {&l.ResultBytes, &d.ResultBytes}, {&l.WorkspaceDisk, &d.WorkspaceDisk},
		{&l.WorkspaceFiles, &d.WorkspaceFiles},
	} {
		if *f.field == 0 {
			*f.field = *f.value
		}
	}
	if l.Processes == 0 {
		l.Processes = d.Processes
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = d.OpenFiles
	}
	if l.CPU == 0 {
		l.CPU = d.CPU
	}
	return l
}
