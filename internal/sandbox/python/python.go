// Package python installs the CPython embedded in this binary on disk, where a
// sandbox can start it: extracted, reduced, compiled and verified.
//
// An install is one directory in the cache. Its name contains the version and a hash
// of everything that determines its content:
//
//	<Dir>/3.14.6-<key>/root/          bin/, lib/, sandpiper/: mounted in sandboxes
//	<Dir>/3.14.6-<key>/manifest.json  SHA-256, size and mode of every file
//	<Dir>/3.14.6-<key>/stamp          hash of the files' metadata when they were last hashed
//	<Dir>/3.14.6-<key>.lock           shared lock held by its users
//	<Dir>/lock                        exclusive lock for changes of Dir
//
// An install is renamed into place when it is complete, and is never changed in
// place: it may be mounted in running sandboxes. A modified install is replaced by a
// new tree. Verification compares the stamp, and hashes the files only if it
// differs. It detects accidents, careless edits and added files; it is no boundary
// against a process with the same uid, which could replace this binary.
//
// A layer of packages is a directory of the same kind in a separate Dir. The caller
// provides its files once; it is verified in the same way.
//
// All functions are safe for concurrent use, also by several processes. The package
// does not isolate anything. It runs only the interpreter to compile sources and list
// modules and, at the operator's request, pip.
package python

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Version of the embedded CPython.
const Version = "3.14.6"

// Config configures Install.
type Config struct {
	// Dir is the cache directory. It is created with mode 0700 if it does not exist.
	// It must belong to the current user or root and be writable only by its owner.
	// Required.
	Dir string
	// Overlay contains Sandpiper's Python files. They are installed, and compiled, in
	// sandpiper/, and the wheels among them as packages of their directories. Nil means none.
	Overlay fs.FS
	// Progress is called during an installation, one call at a time, with a
	// stage ("extract", "compile") and the number of its finished files. Nil means
	// that progress is not reported.
	Progress func(stage string, done, total int)
	// Log receives a warning when a modified install is replaced. Nil means discard.
	Log *slog.Logger
}

// Installation is a verified CPython on disk. No other process removes it while it
// is open.
type Installation struct {
	dir      string
	repaired []string
	release  func() error
	intact   func(thorough bool) bool
	pip      unpackedPip
}

// unpackedPip is the directory with pip, "" before its first run.
type unpackedPip struct {
	mu   sync.Mutex
	dir  string
	from time.Time // when it was unpacked
}

// Intact reports whether the installation has not been replaced since it was
// verified. If thorough is set, it also checks every file (tens of milliseconds).
func (i *Installation) Intact(thorough bool) bool { return i.intact(thorough) }

// Dir returns the directory that contains bin/python3.14, lib/python3.14 and
// sandpiper/. Its files are readable by any uid.
func (i *Installation) Dir() string { return i.dir }

// Version returns the version of this CPython, such as "3.14.6".
func (i *Installation) Version() string { return Version }

// Repaired returns the files, relative to Dir, that were modified, missing or added
// before Install replaced the tree. It is nil if there were none, and after a first
// installation.
func (i *Installation) Repaired() []string { return i.repaired }

// LayerConfig identifies a layer.
type LayerConfig struct {
	// Dir is the directory of layers, with the requirements of Config.Dir. It must not
	// be the same directory. Required.
	Dir string
	// Key identifies the content of the layer: 16 hexadecimal digits. Required.
	Key string
	// Progress is called while packages are compiled, as Config.Progress.
	Progress func(stage string, done, total int)
	// Log receives a warning when a modified install is replaced. Nil means discard.
	Log *slog.Logger
}

// Path returns the directory of the layer if it is installed.
func (c LayerConfig) Path() string { return filepath.Join(c.Dir, Version+"-"+c.Key) }

// Layer is a verified directory of packages, to be mounted at /packages and readable
// by any uid. No other process removes it while it is open.
type Layer struct {
	dir     string
	needs   []string // names of required host libraries
	release func() error
	intact  func(thorough bool) bool
}

// Intact is Installation.Intact for the layer.
func (l *Layer) Intact(thorough bool) bool { return l.intact(thorough) }

// Dir returns the directory of the packages.
func (l *Layer) Dir() string { return l.dir }

// Close releases the layer, so that other processes may remove it. It is idempotent.
func (l *Layer) Close() error { return l.release() }

// Close releases the installation, so that other processes may remove it. It is idempotent.
func (i *Installation) Close() error { return errors.Join(i.pip.remove(), i.release()) }

func (p *unpackedPip) remove() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		return nil
	}
	err := os.RemoveAll(p.dir)
	p.dir = ""
	return err
}
