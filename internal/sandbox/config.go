package sandbox

import (
	"context"
	"log/slog"
)

// Config configures any backend that runs CPython.
type Config struct {
	// Python is the directory of the interpreter. It contains bin/, lib/ and the
	// package sandpiper of internal/sandbox/worker/python. Required.
	Python string
	// Libraries are the files of the host's C library that the interpreter
	// needs: path on the host to path inside. Required.
	Libraries map[string]string
	// Packages is a directory of packages that code may import, read-only at
	// /packages; "" means none.
	Packages string
	// Intact reports whether Python and Packages are unchanged since installation.
	// With thorough it checks every file. If it returns false, Open and the affected
	// Run fail with ErrDamaged. Nil disables the check.
	Intact func(thorough bool) bool
	// Preload lists modules that are imported before code runs. A module that fails is skipped with a warning.
	// Nil means none.
	Preload []string
	// Roots are the directories that mounts may name, by key. Required for "workspaces".
	Roots map[string]string
	// State is a directory in which a backend holds a lock file while it runs.
	// A later backend uses it to find the remains of daemons that died. Required, if the
	// backend leaves any.
	State string
	// Defaults for limits that a Spec leaves at zero; zero fields mean those of DefaultLimits.
	Defaults Limits
	// Usage measures a directory below a root: bytes on disk and number of names.
	// With an error it returns a lower bound. Nil disables the limits on workspaces.
	Usage func(ctx context.Context, dir string) (bytes, files int64, err error)
	// Reserve is the free disk space below which code that adds to its workspace is
	// killed; 0 means none.
	Reserve int64
	// Log receives events; nil discards.
	Log *slog.Logger
}

// WithDefaults returns c with complete Defaults and a Log.
func (c Config) WithDefaults() Config {
	c.Defaults = c.Defaults.WithDefaults(DefaultLimits())
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
