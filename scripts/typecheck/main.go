// Command typecheck checks the types of the packages and tests of the module in the working
// directory for other systems:
//
//	go build -C scripts/typecheck -o /tmp/typecheck . && /tmp/typecheck linux/arm64 darwin/arm64 windows/amd64
//
// It reads the dependencies from source and skips their function bodies, so that a system
// takes seconds. "go vet" compiles the dependencies first, which takes minutes.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, target := range os.Args[1:] {
		n, err := check(target)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %d errors\n", target, n)
		failed = failed || n > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check prints the errors in the packages of this module and returns their number.
func check(target string) (int, error) {
	system, arch, _ := strings.Cut(target, "/")
	root, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	all, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax,
		Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
		Tests: true,
		ParseFile: func(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			if err == nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				removeBodies(f)
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range all {
		if strings.HasSuffix(p.PkgPath, ".test") { // a generated main function
			continue
		}
		for _, e := range p.Errors {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, e)
			n++
		}
	}
	return n, nil
}

// removeBodies leaves the declarations of functions. The imports that only bodies use stay:
// errors in dependencies are not reported.
func removeBodies(f *ast.File) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			d.Body = nil
		}
	}
}
