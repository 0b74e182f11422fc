package workspace

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Bounds of a name, those of the file systems of Linux.
const (
	maxName = 255  // bytes between two slashes
	maxPath = 4095 // bytes in all
)

// inside is where code sees the workspace; models write names that begin so.
const inside = "/workspace"

// own returns the path of a file that the workspace itself holds.
func (f *Files) own(name string) (string, error) {
	p, err := cleanFile(name)
	if err != nil {
		return "", err
	}
	top, _, _ := strings.Cut(p, "/")
	if _, mounted := f.mounts[top]; mounted {
		return "", fault.New(fault.Denied, "%.80q cannot be changed: %s/ in the workspace is read-only", name, top)
	}
	return p, nil
}

// locate returns the directory that holds p, and p's path in it.
func (f *Files) locate(p string) (*dir, string) {
	top, rest, _ := strings.Cut(p, "/")
	if m, mounted := f.mounts[top]; mounted {
		return m, path.Clean(rest)
	}
	return f.root, p
}

// cleanFile is clean for a name that must be a file's.
func cleanFile(name string) (string, error) {
	p, err := clean(name)
	if err != nil {
		return "", err
	}
	if p == "." || strings.HasSuffix(name, "/") {
		return "", fault.New(fault.Invalid, "%.80q names a directory, not a file", name)
	}
	return p, nil
}

// clean checks a name and returns it as a path relative to the workspace,
// without empty or "." elements.
func clean(name string) (string, error) {
	rel := name
	if rest, ok := strings.CutPrefix(name, inside); ok && (rest == "" || rest[0] == '/') {
		rel = "." + rest
	}
	switch {
	case name == "":
		return "", fault.New(fault.Invalid, "the name of a file must not be empty")
	case strings.ContainsRune(name, 0):
		return "", fault.New(fault.Invalid, "the name %.80q contains a NUL character, which no file name can", name)
	case !utf8.ValidString(name):
		return "", fault.New(fault.Invalid, "the name %.80q is not valid UTF-8", name)
	case rel[0] == '/':
		return "", fault.New(fault.Invalid, "the name %.80q is absolute: names are relative to the workspace, such as \"data/report.csv\"", name)
	case len(rel) > maxPath:
		return "", fault.New(fault.Invalid, "the name %.80q… has %d bytes: a path may have %d", name, len(name), maxPath)
	}
	for element := range strings.SplitSeq(rel, "/") {
		if element == ".." {
			return "", fault.New(fault.Denied, "the name %.80q contains \"..\": names stay inside the workspace", name)
		}
		if len(element) > maxName {
			return "", fault.New(fault.Invalid, "the name %.80q… has %d bytes between slashes: a file name may have %d", element, len(element), maxName)
		}
	}
	return path.Clean(rel), nil
}
