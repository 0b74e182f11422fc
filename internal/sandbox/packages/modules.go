package packages

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// clash returns the fault of two packages whose files cannot be installed together.
func clash(pkg, file, other, file2 string) error {
	what := "both " + pkg + " and " + other + " contain a file " + file + ", and they differ"
	if file != file2 {
		what = pkg + " contains " + file + " and " + other + " contains " + file2 + ", and one would replace the other"
	}
	return fault.New(fault.Invalid, "%s", what).WithHint("remove one of the two packages from the requirements")
}

// checkModules fails if a package replaces a module of another: by a file that Python finds first,
// by code for a namespace package of others, or by a name that differs only in case.
func checkModules(files map[string]*origin) error {
	names := slices.Sorted(maps.Keys(files))
	modules := map[string][]string{} // module -> files
	for _, name := range names {
		if m := moduleOf(name); m != "" {
			modules[m] = append(modules[m], name)
		}
	}
	for _, name := range names {
		m := moduleOf(name)
		if m == "" {
			continue
		}
		if first := modules[m][0]; !slices.Equal(files[first].pkgs, files[name].pkgs) {
			return clash(files[first].pkgs[0], first, other(files[name].pkgs, files[first].pkgs[0]), name)
		}
		for dir := path.Dir(m); dir != "."; dir = path.Dir(dir) {
			for _, above := range modules[dir] {
				for _, pkg := range files[name].pkgs {
					if !files[above].declares && !slices.Contains(files[above].pkgs, pkg) {
						return clash(files[above].pkgs[0], above, pkg, name)
					}
				}
			}
		}
	}
	return nil
}

// other returns the first package in list that is not pkg, or pkg.
func other(list []string, pkg string) string {
	for _, p := range list {
		if p != pkg {
			return p
		}
	}
	return pkg
}

// moduleSuffix matches the suffix of a file that Python imports.
var moduleSuffix = lazyregexp.New(`\.(py|so|abi3\.so|cpython-[^./]*\.so)$`)

// moduleOf returns the module that Python imports from a file, as a path in lower case, or "".
func moduleOf(file string) string {
	file = strings.ToLower(file)
	m := moduleSuffix().ReplaceAllLiteralString(file, "")
	if m == file || strings.Contains(m, ".") {
		return ""
	}
	if path.Base(m) == "__init__" {
		return path.Dir(m)
	}
	return m
}

// isForeignInfo reports whether dir is a directory of metadata that is not of pkg.
func isForeignInfo(dir, pkg string) bool {
	name, isInfo := strings.CutSuffix(dir, ".dist-info")
	if isInfo { // the version has no hyphen
		name = name[:max(0, strings.LastIndexByte(name, '-'))]
	} else if name, isInfo = strings.CutSuffix(dir, ".egg-info"); isInfo {
		name, _, _ = strings.Cut(name, "-")
	}
	return isInfo && canonical(name) != canonical(pkg)
}

var separators = lazyregexp.New(`[-_.]+`)

// canonical returns the name of a package in the form in which names are compared.
func canonical(name string) string { return strings.ToLower(separators().ReplaceAllString(name, "-")) }

// beginning keeps the first bytes written to it.
type beginning struct {
	text strings.Builder
	more bool
}

func (b *beginning) Write(p []byte) (int, error) {
	n := min(len(p), 4096-b.text.Len())
	b.text.Write(p[:n])
	b.more = b.more || n < len(p)
	return len(p), nil
}

// declaresNamespace reports whether a module has no code but that which declares a namespace package.
func declaresNamespace(start *beginning) bool {
	for line := range strings.Lines(start.text.String()) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(strings.ReplaceAll(line, `"`, "'")); line != "" && !slices.Contains(declarations, line) {
			return false
		}
	}
	return !start.more
}

var declarations = []string{
	"try:", "except ImportError:", "import pkg_resources", "import pkgutil", "from pkgutil import extend_path",
	"pkg_resources.declare_namespace(__name__)", "__import__('pkg_resources').declare_namespace(__name__)",
	"__path__ = extend_path(__path__, __name__)", "__path__ = pkgutil.extend_path(__path__, __name__)",
	"__path__ = __import__('pkgutil').extend_path(__path__, __name__)",
}
