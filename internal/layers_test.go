// Package internal_test enforces the import policy. Change the code before the table.
package internal_test

import (
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandpiper-mcp/sandpiper/"

// rootName is the name of the package at the root of the module in the tables.
const rootName = "sandpiper"

// layers lists the packages of each layer, from the lowest. A package imports
// packages of lower layers, its own subpackages, its parent and its siblings below
// that parent, and nothing else: each layer can be understood without those above.
var layers = [][]string{
	{"fault", "clock", "rawjson", "lazyregexp", "logtest", "longtest"},
	{"command", "store", "telemetry", "httpserver", "memory"},
	{"tool", "audit", "access"},
	{"privacy", "policy", "sandbox", "upstream"},
	{"guardrail", "home"},
	{"toolcall"},
	{"execution"},
	{"mcpserver", "console"},
	{"config"},
	{"daemon"},
	{"cli"},
	{"feature"},
	{"sandpiper"},
	{"cmd", "scripts", "examples"},
}

// reserved lists the external packages that only some packages may import.
var reserved = []struct {
	path    string
	allowed []string
	reason  string
}{
	{"github.com/modelcontextprotocol/go-sdk", []string{"mcpserver/wire", "upstream/mcp", "sandpiper", "examples", "feature/bench"},
		"the next revision of the protocol or the SDK changes two packages; programs that embed Sandpiper write servers with it, and " +
			"example servers and that of sandpiper bench are servers of their own"},
	{"github.com/spf13/cobra", []string{"cli", "cmd/sandpiper", "feature"},
		"flags are one source of configuration; packages take a Config"},
	{"github.com/kluctl/go-embed-python", []string{"sandbox/python"},
		"one package extracts and verifies the embedded CPython"},
	{"go.opentelemetry.io", []string{"telemetry"},
		"telemetry exports no values; a tracer elsewhere could"},
	{"github.com/prometheus", []string{"telemetry"},
		"telemetry defines every metric"},
	{"modernc.org/sqlite", []string{"store", "examples/servers/database"},
		"every database is opened with the same settings and migrations"},
	{"github.com/jackc/pgx", []string{"store/blob"},
		"PostgreSQL holds objects only; tables of a tenant are in SQLite"},
	{"github.com/minio/minio-go", []string{"store/blob"},
		"objects are created once, and the outcome of each create is known or said to be unknown"},
	{"golang.org/x/oauth2/google", []string{"store/blob"},
		"Google's credentials are used for objects only"},
}

func TestImports(t *testing.T) {
	seen := checkPackage(t, "..")
	for _, root := range []string{".", "../cmd", "../scripts", "../examples"} {
		err := filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			if e.Name() == "testdata" {
				return filepath.SkipDir
			}
			seen += checkPackage(t, dir)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 5 {
		t.Errorf("%d packages found: the test no longer finds the tree", seen)
	}
}

// checkPackage checks all files in dir, whatever their build constraints. Test files
// may import any layer, but not reserved packages.
func checkPackage(t *testing.T, dir string) int {
	ctx := build.Default
	ctx.UseAllFiles = true
	p, err := ctx.ImportDir(dir, 0)
	if _, none := err.(*build.NoGoError); none {
		return 0
	}
	if err != nil {
		t.Errorf("reading %s: %v", dir, err)
		return 0
	}
	name := strings.TrimPrefix(filepath.ToSlash(dir), "../")
	if dir == ".." {
		name = rootName
	}
	for _, path := range p.Imports {
		checkLayer(t, name, path)
	}
	for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
		checkReserved(t, name, path)
	}
	return 1
}

func checkLayer(t *testing.T, name, path string) {
	imported, ours := strings.CutPrefix(path+"/", module)
	if imported = strings.Trim(imported, "/"); ours && imported == "" {
		imported = rootName
	}
	if !ours {
		return
	}
	from, to := top(name), top(strings.TrimPrefix(imported, "internal/"))
	high, low := layer(from), layer(to)
	switch {
	case high < 0 && from != ".":
		t.Errorf("internal/%s is in no layer: add it to the table", from)
	case low < 0:
		t.Errorf("%s imports %s, which is in no layer: add it to the table", name, path)
	case from == to || low < high:
	default:
		t.Errorf("%s (layer %d) imports %s (layer %d): a package imports lower layers only", name, high, to, low)
	}
}

// layer returns the number of the layer of a package, or -1.
func layer(name string) int {
	return slices.IndexFunc(layers, func(names []string) bool { return slices.Contains(names, name) })
}

func checkReserved(t *testing.T, name, path string) {
	for _, r := range reserved {
		if path != r.path && !strings.HasPrefix(path, r.path+"/") {
			continue
		}
		if !slices.ContainsFunc(r.allowed, func(a string) bool { return name == a || strings.HasPrefix(name, a+"/") }) {
			t.Errorf("%s imports %s, which only %s may: %s", name, path, strings.Join(r.allowed, " and "), r.reason)
		}
	}
}

// top returns the first element of a slash-separated path.
func top(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}

// The table in the architecture document has the same layers.
func TestArchitectureDocumentHasTheLayers(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, names := range layers {
		if row := fmt.Sprintf("\n| %d | `%s` |", i, strings.Join(names, "` `")); !strings.Contains(string(text), row) {
			t.Errorf("docs/architecture.md has no row %q", row[1:])
		}
	}
	if row := fmt.Sprintf("\n| %d |", len(layers)); strings.Contains(string(text), row) {
		t.Errorf("docs/architecture.md has a row %q", row[1:])
	}
}
