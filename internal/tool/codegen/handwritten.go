package codegen

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// Limits of the handwritten modules.
const (
	maxFiles    = 2_000
	maxFileSize = 1 << 20 // bytes
)

// ReadHandwritten reads the handwritten modules SERVER/FILE.py and SERVER.py in dir. The servers
// that it returns have only a Module and Files; SERVER.py is the __init__.py of its server. It
// returns the files that code cannot import: because of their names, since SERVER.py has a
// directory next to it, or as links out of dir. Other files and names that begin with _ are ignored.
func ReadHandwritten(dir string) (all []Server, ignored []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, readFault(dir, err)
	}
	defer root.Close()
	inDirs, err := fs.Glob(root.FS(), "*/*.py")
	top, topErr := fs.Glob(root.FS(), "*.py")
	if err = cmp.Or(err, topErr); err != nil || len(inDirs)+len(top) > maxFiles {
		return nil, nil, readFault(dir, err)
	}
	found := map[string][]File{} // by module
	for _, path := range append(inDirs, top...) {
		module, name, ok := strings.Cut(path, "/")
		if !ok {
			module, name = strings.TrimSuffix(path, ".py"), initName
		}
		if strings.HasPrefix(module, "_") {
			continue
		}
		data, err := readModule(root, path)
		if err != nil {
			return nil, nil, readFault(dir+"/"+path, err)
		}
		switch {
		case data == nil, !importable(module, name) || !ok && found[module] != nil:
			ignored = append(ignored, path)
		default:
			found[module] = append(found[module], File{module + "/" + name, data})
		}
	}
	for _, module := range slices.Sorted(maps.Keys(found)) {
		all = append(all, Server{Module: module, Title: "Handwritten modules", Files: found[module]})
	}
	return all, ignored, nil
}

func readFault(path string, err error) error {
	return fault.Wrap(fault.Invalid, err, "cannot read the handwritten modules in %s", path).
		WithHint("the directory must contain SERVER.py or SERVER/FILE.py: at most %d files of at most %d bytes, readable by the user "+
			"that runs Sandpiper", maxFiles, maxFileSize)
}

// importable reports whether both names are valid and equal to the Python names
// that would be generated for them.
func importable(module, name string) bool {
	stem := strings.TrimSuffix(name, ".py")
	return tool.ModuleNames([]string{module})[module] == module && (name == initName || tool.ParamNames([]string{stem})[stem] == stem)
}

// readModule returns the file's content, or nil if it is not a regular file.
func readModule(root *os.Root, path string) ([]byte, error) {
	info, err := root.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil // includes a link out of the root
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("more than %d bytes", maxFileSize)
	}
	if data == nil {
		data = []byte{}
	}
	return data, err
}

func (s Server) isHandwritten() bool { return s.Name == "" && len(s.Files) > 0 }

// Shadowed returns the paths of the handwritten files that are hidden by
// generated files of the same name.
func (s Server) Shadowed() (paths []string) {
	names := toolNames(distinct(s.Tools))
	made := map[string]bool{s.Module + "/" + initName: true, s.Module + "/aio.py": true}
	made[s.Module+"/resources.py"], made[s.Module+"/prompts.py"] = s.Resources, s.Prompts
	for _, name := range names {
		made[s.Module+"/"+name+".py"] = true
	}
	for _, f := range s.Files {
		if !s.isHandwritten() && made[f.Path] {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// visibleFiles returns the handwritten files that are not shadowed.
func (s Server) visibleFiles() []File {
	hidden := s.Shadowed()
	return slices.DeleteFunc(slices.Clone(s.Files), func(f File) bool { return slices.Contains(hidden, f.Path) })
}

// stem returns the module name of a file of the server.
func (s Server) stem(f File) string {
	return strings.TrimSuffix(strings.TrimPrefix(f.Path, s.Module+"/"), ".py")
}

// handwrittenNames returns the module names of the visible files.
func (s Server) handwrittenNames() (names []string) {
	for _, f := range s.visibleFiles() {
		if name := s.stem(f); !strings.HasPrefix(name, "_") {
			names = append(names, name)
		}
	}
	return names
}

// Handwritten is a function of a handwritten module.
type Handwritten struct {
	pysource.Function
	Module string   // Python name of the server
	File   string   // relative to servers/
	About  string   // docstring of the function, or else of its module
	Calls  []string // tools that its file calls by constant names
}

// Import returns the statement that imports the function.
func (h Handwritten) Import() string { return "from servers." + h.Module + " import " + h.Name }

// Handwritten returns the functions of the visible files that code can import from the package
// of the server: those of __init__.py first, then of each file the function of the file's name,
// then others. A name of a generated module, and that of another file, hide a function.
func (s Server) Handwritten() (all []Handwritten) {
	if len(s.Files) == 0 {
		return nil
	}
	taken := s.generatedNames()
	var rest []Handwritten
	files := s.visibleFiles()
	for _, f := range files {
		stem := s.stem(f)
		if strings.HasPrefix(stem, "_") && stem != "__init__" {
			continue
		}
		m := pysource.Parse(f.Data)
		for _, fn := range m.Functions {
			h := Handwritten{Function: fn, Module: s.Module, File: f.Path, About: cmp.Or(fn.Doc, m.Doc), Calls: pysource.Calls(f.Data)}
			if (stem == "__init__" || stem == fn.Name) && !taken[fn.Name] {
				taken[fn.Name] = true
				all = append(all, h)
			} else {
				rest = append(rest, h)
			}
		}
	}
	for _, name := range s.handwrittenNames() {
		taken[name] = true
	}
	for _, h := range rest {
		if !taken[h.Name] {
			taken[h.Name] = true
			all = append(all, h)
		}
	}
	return all
}

// generatedNames returns the names of the functions and parts of the server itself.
func (s Server) generatedNames() map[string]bool {
	names := map[string]bool{}
	if s.isHandwritten() {
		return names
	}
	for _, name := range toolNames(distinct(s.Tools)) {
		names[name] = true
	}
	names["aio"], names["resources"], names["prompts"] = true, s.Resources, s.Prompts
	return names
}

// ShadowedFunctions returns the functions of visible files that are hidden by tools of the
// server, as "SERVER/FILE.py: FUNCTION".
func (s Server) ShadowedFunctions() (all []string) {
	names := s.generatedNames()
	for _, f := range s.visibleFiles() {
		for _, fn := range pysource.Parse(f.Data).Functions {
			if names[fn.Name] {
				all = append(all, f.Path+": "+fn.Name)
			}
		}
	}
	return all
}

// elsewhere returns the files of the functions that are in a file of another name, by function.
func (s Server) elsewhere() map[string]string {
	files := map[string]string{}
	for _, h := range s.Handwritten() {
		if stem := s.stem(File{Path: h.File}); stem != h.Name && stem != "__init__" {
			files[h.Name] = stem
		}
	}
	return files
}

// handwrittenFiles returns the files of a server that has only handwritten ones. It
// generates __init__.py if there is none. Otherwise it appends to it: what lets the package
// find its functions by name, and the stamp.
func handwrittenFiles(s Server) []File {
	files := slices.Clone(s.Files)
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == s.Module+"/"+initName })
	if i < 0 {
		return append(files, File{s.Module + "/" + initName, serverModule(s, nil, nil)})
	}
	complete := fmt.Sprintf("\n\n__import__(\"servers\")._complete(__name__, %s, %s)\n%s\n", set(s.handwrittenNames()), dict(s.elsewhere()),
		stamp(s))
	files[i].Data = slices.Concat(files[i].Data, []byte(complete))
	return files
}

// set returns the expression of a frozenset of texts.
func set(texts []string) string {
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(literal(t) + ", ")
	}
	return "frozenset((" + strings.TrimSuffix(b.String(), " ") + "))"
}

// dict returns the expression of a dictionary of texts.
func dict(texts map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		b.WriteString(literal(key) + ": " + literal(texts[key]) + ", ")
	}
	return "{" + strings.TrimSuffix(b.String(), ", ") + "}"
}
