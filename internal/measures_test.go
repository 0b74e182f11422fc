package internal_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
)

// measureProgram returns the values that TestRatchet compares, by kind and name. A hard value within
// the bounds is left out, unless the file lists it.
func measureProgram(t *testing.T) map[string]int {
	t.Helper()
	now := map[string]int{}
	listed := readRatchet(t)
	for _, dir := range packageDirs(t, "..") {
		name := strings.TrimPrefix(filepath.ToSlash(dir), "../")
		if dir == ".." {
			name = rootName
		}
		p := parsePackage(t, dir)
		for typ, n := range p.methods() {
			if key := "methods " + name + "." + typ; n > maxMethods || listed[key].number > 0 {
				now[key] = n
			}
		}
		maps.Copy(now, p.long())
		now["wide all"] += p.wide
		edges := references(p)
		key, back := "back "+name, countBack(orderFiles(edges), edges)
		if len(p.files) > smallFiles && back*100 > maxBack*len(edges) || listed[key].number > 0 {
			now[key] = back
		}
		if top(name) == "bench" { // a module of its own, which is no part of the program
			now["lines bench"] += p.lines
			continue
		}
		now["lines all"] += p.lines
		if rest, below := strings.CutPrefix(name, "internal/"); below {
			now["lines internal/"+top(rest)] += p.lines
		}
	}
	now["count dependencies"] = countLines(t, "../go.mod", func(line string) bool {
		return strings.HasPrefix(line, "\t") && strings.Contains(line, " v") && !strings.Contains(line, "// indirect")
	})
	now["count commands"] = countLines(t, "../docs/commands.md", func(line string) bool { return strings.HasPrefix(line, "| `") })
	now["count keys"] = countKeys(t)
	now["count words"] = countWords(t, "../docs")
	return now
}

// packageDirs returns the directories below root that hold Go files besides tests.
func packageDirs(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if base := e.Name(); base == "testdata" || base == "dist" || base == "node_modules" || name != root && strings.HasPrefix(base,
			".") {
			return filepath.SkipDir
		}
		if len(sources(name)) > 0 {
			dirs = append(dirs, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// sources returns the Go files of a directory, for every system, without tests.
func sources(dir string) []string {
	all, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// goPackage is a parsed package.
type goPackage struct {
	fset  *token.FileSet
	files map[string]*ast.File // by path, for every system
	lines int                  // of code
	wide  int                  // lines of more than maxColumns
}

func parsePackage(t *testing.T, dir string) goPackage {
	t.Helper()
	p := goPackage{fset: token.NewFileSet(), files: map[string]*ast.File{}}
	for _, name := range sources(dir) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.files[name], err = parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		p.lines += codeLines(text)
		for line := range bytes.Lines(text) {
			p.wide += btoi(utf8.RuneCount(bytes.ReplaceAll(bytes.TrimRight(line, "\n"), []byte("\t"), []byte("    "))) > maxColumns)
		}
	}
	return p
}

// codeLines returns the number of lines that hold more than a comment.
func codeLines(text []byte) int {
	var s scanner.Scanner
	f := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(f, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := f.Line(pos)
		for i := range strings.Count(lit, "\n") + 1 {
			lines[first+i] = true
		}
	}
}

// long returns the functions and files that are longer than their bounds, by key.
func (p goPackage) long() map[string]int {
	found := map[string]int{}
	for name, f := range p.files {
		name = strings.TrimPrefix(filepath.ToSlash(name), "../")
		if n := p.fset.File(f.Pos()).LineCount(); n > maxFile {
			found["file "+name] = n
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(path.Dir(name), "test") { // such a package has tables of tests
				continue
			}
			if n := p.fset.Position(d.End()).Line - p.fset.Position(d.Pos()).Line + 1; n > maxFunction {
				of := ""
				if d.Recv != nil {
					of = receiver(d.Recv.List[0].Type) + "."
				}
				found["function "+path.Dir(name)+"."+of+d.Name.Name] = n
			}
		}
	}
	return found
}

// methods returns how many methods each type declares. A method that several systems declare is one.
func (p goPackage) methods() map[string]int {
	names := map[string]map[string]bool{}
	for _, f := range p.files {
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Recv == nil {
				continue
			}
			typ := receiver(d.Recv.List[0].Type)
			if names[typ] == nil {
				names[typ] = map[string]bool{}
			}
			names[typ][d.Name.Name] = true
		}
	}
	counts := map[string]int{}
	for typ, methods := range names {
		counts[typ] = len(methods)
	}
	return counts
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// reference says that one file refers to a declaration of another one.
type reference struct{ from, to string }

// references returns the references between the files of a package on Linux. Names are resolved by
// the type checker without the imported packages: what it cannot resolve is no name of this package.
func references(p goPackage) map[reference]bool {
	system := build.Default
	system.GOOS, system.GOARCH, system.CgoEnabled = "linux", "amd64", false
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if match, err := system.MatchFile(filepath.Dir(name), filepath.Base(name)); err == nil && match {
			files = append(files, p.files[name])
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Error: func(error) {}}
	pkg, _ := checker.Check("p", p.fset, files, info)
	refs := map[reference]bool{}
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		if r := (reference{p.fset.File(id.Pos()).Name(), p.fset.File(object.Pos()).Name()}); r.from != r.to {
			refs[r] = true
		}
	}
	return refs
}

// orderFiles orders files so that few references point back: the greedy heuristic of Eades, Lin and
// Smyth ("A fast and effective heuristic for the feedback arc set problem", 1993), then each file is
// moved to its best place until none gains.
func orderFiles(refs map[reference]bool) []string {
	left := map[string]bool{}
	for r := range refs {
		left[r.from], left[r.to] = true, true
	}
	var first, last []string
	for len(left) > 0 {
		name, excess, sink := "", 0, false
		for _, n := range slices.Sorted(maps.Keys(left)) {
			out, in := 0, 0
			for r := range refs {
				if left[r.from] && left[r.to] {
					out, in = out+btoi(r.from == n), in+btoi(r.to == n)
				}
			}
			if sink = out == 0; sink {
				name = n
				break
			}
			if in == 0 {
				out = len(refs)
			}
			if name == "" || out-in > excess {
				name, excess = n, out-in
			}
		}
		delete(left, name)
		if sink {
			last = append(last, name)
		} else {
			first = append(first, name)
		}
	}
	slices.Reverse(last)
	order := slices.Concat(first, last)
	for moveFile(order, refs) {
	}
	return order
}

// moveFile moves one file to a place where fewer references point back, and reports whether there was one.
func moveFile(order []string, refs map[reference]bool) bool {
	for from, name := range order {
		rest := slices.Delete(slices.Clone(order), from, from+1)
		place := map[string]int{}
		for i, n := range rest {
			place[n] = i
		}
		back := func(at int) (n int) {
			for r := range refs {
				n += btoi(r.from == name && place[r.to] < at) + btoi(r.to == name && place[r.from] >= at)
			}
			return n
		}
		best := from
		for at := range len(order) {
			if back(at) < back(best) {
				best = at
			}
		}
		if best != from {
			copy(order, slices.Insert(rest, best, name))
			return true
		}
	}
	return false
}

// countBack returns how many references point to an earlier file.
func countBack(order []string, refs map[reference]bool) (n int) {
	for r := range refs {
		n += btoi(slices.Index(order, r.from) > slices.Index(order, r.to))
	}
	return n
}

// backReferences returns the references of a package that go back up.
func backReferences(t *testing.T, name string) (found []string) {
	t.Helper()
	dir := filepath.Join("..", name)
	if name == rootName {
		dir = ".."
	}
	refs := references(parsePackage(t, dir))
	order := orderFiles(refs)
	for r := range refs {
		if slices.Index(order, r.from) > slices.Index(order, r.to) {
			found = append(found, filepath.Base(r.from)+" -> "+filepath.Base(r.to))
		}
	}
	slices.Sort(found)
	return found
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func countLines(t *testing.T, file string, counts func(line string) bool) (n int) {
	t.Helper()
	for line := range strings.Lines(readDocument(t, file)) {
		n += btoi(counts(line))
	}
	return n
}

// countKeys returns the number of keys of the configuration.
func countKeys(t *testing.T) int {
	t.Helper()
	text, err := config.JSONSchema(daemon.Sections(feature.OfDaemon(all.Features())))
	if err != nil {
		t.Fatal(err)
	}
	var root schemaNode
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	return root.leaves()
}

type schemaNode struct{ Properties map[string]schemaNode }

func (s schemaNode) leaves() (n int) {
	for _, p := range s.Properties {
		n += p.leaves()
	}
	return max(n, 1)
}

func countWords(t *testing.T, dir string) (n int) {
	t.Helper()
	pages, err := filepath.Glob(path.Join(dir, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%s has no pages: %v", dir, err)
	}
	for _, page := range pages {
		n += len(strings.Fields(readDocument(t, page)))
	}
	return n
}

// The measures themselves, on a package with known values.
func TestMeasures(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package p\n\n// A is below.\ntype A struct{ B }\n\nfunc (a *A) One() { b(a) }\nfunc (A) Two()    {}\n",
		"b.go": "package p\n\nimport \"fmt\"\n\ntype B struct{}\n\nfunc (B) Three() { fmt.Println(c) }\nfunc b(a *A)     { " +
			"a.Two() }\n",
		"c.go":         "package p\n\n/* two\nlines */\nvar c = `\n`\n",
		"d_linux.go":   "package p\n\nfunc (*G[T]) Four() {}\n\ntype G[T any] struct{}\n",
		"d_windows.go": "package p\n\nfunc (*G[T]) Four() {}\n\ntype G[T any] struct{}\n\nvar _ = c\n",
		"e.go": "package p\n\nfunc (A) Long() {" + strings.Repeat("\n", maxFunction) + "}\n" + strings.Repeat("\n",
			maxFile) + "// " + strings.Repeat("é", maxColumns-2),
		"a_test.go": "package p\n\nfunc (A) Five() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := parsePackage(t, dir)
	if got, want := p.methods(), map[string]int{"A": 3, "B": 1, "G": 1}; !maps.Equal(got, want) {
		t.Errorf("methods %v, want %v", got, want)
	}
	if p.lines != 4+5+3+3+4+3 {
		t.Errorf("%d lines, want 22", p.lines)
	}
	at := filepath.ToSlash(dir)
	if got, want := p.long(), map[string]int{"file " + at + "/e.go": 464, "function " + at + ".A.Long": 61}; !maps.Equal(got, want) ||
		p.wide != 1 {
		t.Errorf("long %v, want %v; %d wide lines, want 1", got, want, p.wide)
	}
	refs := references(p)
	order := orderFiles(refs)
	if back := countBack(order, refs); len(refs) != 4 || back != 1 { // a -> b -> a, b -> c, e -> a
		t.Errorf("%d of %d references go back in %v, want 1 of 4", back, len(refs), order)
	}
}
