package workspace

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Limits of a name, as in the file systems of Linux.
const (
	maxName = 255  // bytes between two slashes
	maxPath = 4095 // bytes in total
)

// mountPoint is the path of the workspace in a sandbox. Models use it as a prefix of names.
const mountPoint = "/workspace"

// writablePath returns the path of a file outside of the mounts.
func (f *Files) writablePath(name string) (string, error) {
	p, err := cleanFile(name)
	if err != nil {
		return "", err
	}
	top, _, _ := strings.Cut(p, "/")
	if _, mounted := f.cfg.Mounts[top]; mounted {
		return "", fault.New(fault.Denied, "%s cannot be changed: %s/ in the workspace is read-only", fault.Quoted(name), top)
	}
	return p, nil
}

// locate returns the root or mount that contains p, and the path of p in it.
func (f *Files) locate(p string) (d *dir, rel string, err error) {
	top, rest, _ := strings.Cut(p, "/")
	if from, mounted := f.cfg.Mounts[top]; mounted {
		d, err = f.dirs.at(from, "open the mount "+top+" of the workspace")
		return d, path.Clean(rest), err
	}
	d, err = f.dirs.root()
	return d, p, err
}

// cleanFile is clean for the name of a file.
func cleanFile(name string) (string, error) {
	p, err := clean(name)
	if err != nil {
		return "", err
	}
	if p == "." || strings.HasSuffix(name, "/") {
		return "", fault.New(fault.Invalid, "%s names a directory, not a file", fault.Quoted(name))
	}
	return p, nil
}

// clean checks a name and returns it as a path relative to the workspace, without empty or "."
// elements.
func clean(name string) (string, error) {
	rel := name
	if rest, ok := strings.CutPrefix(name, mountPoint); ok && (rest == "" || rest[0] == '/') {
		rel = "." + rest
	}
	switch {
	case name == "":
		return "", fault.New(fault.Invalid, "the name of a file must not be empty")
	case strings.ContainsRune(name, 0):
		return "", fault.New(fault.Invalid, "the name %s contains a NUL character, which no file name can", fault.Quoted(name))
	case !utf8.ValidString(name):
		return "", fault.New(fault.Invalid, "the name %s is not valid UTF-8", fault.Quoted(name))
	case rel[0] == '/':
		return "", fault.New(fault.Invalid, "the name %s is absolute: names are relative to the workspace, such as \"data/report.csv\"",
			fault.Quoted(name))
	case len(rel) > maxPath:
		return "", fault.New(fault.Invalid, "the name has %d bytes: a path may have %d", len(name), maxPath)
	}
	for element := range strings.SplitSeq(rel, "/") {
		if element == ".." {
			return "", fault.New(fault.Denied, "the name %s contains \"..\": names stay inside the workspace", fault.Quoted(name))
		}
		if len(element) > maxName {
			return "", fault.New(fault.Invalid, "the name has %d bytes between slashes: a file name may have %d", len(element), maxName)
		}
	}
	return path.Clean(rel), nil
}
