// Package python puts the CPython that travels inside this binary on disk,
// where a sandbox can start it: extracted, slimmed, compiled and verified.
//
// An install is one directory in the cache, named by the version and a key of
// everything that decides its content:
//
//	<Dir>/3.14.6-<key>/root/          bin/, lib/, sandpiper/: what a sandbox shows
//	<Dir>/3.14.6-<key>/manifest.json  SHA-256, size and mode of every file
//	<Dir>/3.14.6-<key>/stamp          what the file system said about them when they were last hashed
//	<Dir>/3.14.6-<key>.lock           locked for sharing by those who use it
//	<Dir>/lock                        locked by the one who changes Dir
//
// An install appears by a rename, complete, and is never changed in place: it
// may be mounted in running sandboxes. One that was tampered with is replaced
// by a new tree. Verification compares the stamp, and hashes only if that
// differs. It finds accidents, careless edits and planted files; it is no
// boundary against somebody with our own uid, who could replace this binary.
//
// A layer of packages is a directory of the same kind, in a Dir of its own, that
// somebody else fills once and that is verified in the same way.
//
// All functions may be used concurrently, by several processes too. The package
// does not isolate anything and runs no code but CPython's compiler and, where
// the operator asks for it, pip.
package python

import (
	"io/fs"
	"log/slog"
	"path/filepath"
)

// Version of the embedded CPython.
const Version = "3.14.6"

// Config says where to install and what to add.
type Config struct {
	// Dir is the cache directory. It is made, private, if it does not exist; it
	// must belong to us or root, and nobody else may write there. Required.
	Dir string
	// Overlay holds our own Python files. They are installed, and compiled, as
	// sandpiper/. Nil means none.
	Overlay fs.FS
	// Progress is called during an installation, one call at a time, with a
	// stage ("extract", "compile") and how many of its files are done. Nil means
	// silence.
	Progress func(stage string, done, total int)
	// Log hears of repairs. Nil discards.
	Log *slog.Logger
}

// Installation is a verified CPython on disk. While it is open no other
// process removes it.
type Installation struct {
	dir      string
	repaired []string
	release  func() error
	intact   func(thorough bool) bool
}

// Intact reports whether the installation is still where it was verified. If
// thorough is set it also looks at every file, which takes some ten milliseconds.
func (i *Installation) Intact(thorough bool) bool { return i.intact(thorough) }

// Dir is the directory with bin/python3.14, lib/python3.14 and sandpiper/.
// Everything in it may be read by any uid that reaches it.
func (i *Installation) Dir() string { return i.dir }

// Version of this CPython, such as "3.14.6".
func (i *Installation) Version() string { return Version }

// Repaired lists the files, relative to Dir, that were found changed, missing
// or planted and have been put right. It is nil if all was well, and after a
// first installation.
func (i *Installation) Repaired() []string { return i.repaired }

// LayerConfig says which layer, and where layers are.
type LayerConfig struct {
	// Dir is a directory as Config.Dir, and not the same one. Required.
	Dir string
	// Key stands for what is in the layer: 16 hexadecimal digits. Required.
	Key string
	// Progress is called while packages are compiled, as Config.Progress.
	Progress func(stage string, done, total int)
	// Log hears of repairs. Nil discards.
	Log *slog.Logger
}

// Path is where the layer is, if it is installed.
func (c LayerConfig) Path() string { return filepath.Join(c.Dir, Version+"-"+c.Key) }

// Layer is a verified directory of packages, to be shown as /packages and read
// by any uid. While it is open no other process removes it.
type Layer struct {
	dir     string
	needs   []string // libraries of the host
	release func() error
	intact  func(thorough bool) bool
}

// Intact reports what Installation.Intact does, of the layer.
func (l *Layer) Intact(thorough bool) bool { return l.intact(thorough) }

// Dir is the directory with the packages.
func (l *Layer) Dir() string { return l.dir }

// Close says that the layer is not used any more. It is idempotent.
func (l *Layer) Close() error { return l.release() }

// Close says that the installation is not used any more. It is idempotent.
func (i *Installation) Close() error { return i.release() }
