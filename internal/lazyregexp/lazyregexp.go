// Package lazyregexp compiles regular expressions on first use. Those of package variables would
// otherwise be compiled at every start of the program, also where it never uses them.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// New returns a function that returns the compiled expression. In tests the expression is
// compiled at once, so that an invalid one panics there.
func New(expr string) func() *regexp.Regexp {
	compile := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
	if strings.HasSuffix(os.Args[0], ".test") {
		compile()
	}
	return compile
}
