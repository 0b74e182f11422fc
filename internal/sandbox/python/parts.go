package python

import "regexp"

// kept matches the parts of the distribution that a sandbox needs; libpython*.so is
// linked into the executable. dropped matches exceptions: graphics modules, which
// need a display, files for building extensions, and CPython's own tests.
const (
	kept    = `^(bin(/python(3(\.14)?)?)?|lib|lib/python3\.14(/.*)?)$`
	dropped = `^lib/python3\.14/(tkinter|turtle\.py|config-3\.14-[^/]*|lib-dynload/(_test|_ctypes_test|_tkinter)[^/]*)(/|$)`
)

// Installer returns a function that reports whether Install writes a file of the
// distribution, such as "lib/python3.14/ast.py". A release carries no others.
func Installer() func(name string) bool {
	keep, drop := regexp.MustCompile(kept), regexp.MustCompile(dropped)
	return func(name string) bool { return keep.MatchString(name) && !drop.MatchString(name) }
}
