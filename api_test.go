package sandpiper_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The package stays small: types, functions, constants and variables, without methods and fields. A
// feature has one type that a method of Client returns, and types of its data only where a map would
// be read by every caller; what they leave out, Client.Call reaches.
func TestFewExportedNames(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name := range file.Scope.Objects { // methods are not in it
			if ast.IsExported(name) {
				names = append(names, name)
			}
		}
	}
	if len(names) < 20 || len(names) > 50 {
		t.Errorf("%d names: %q", len(names), names)
	}
}
