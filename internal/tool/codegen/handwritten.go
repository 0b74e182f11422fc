package codegen

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Limits of the handwritten modules.
const (
	maxFiles    = 2_000
	maxFileSize = 1 << 20 // bytes
)

// ReadHandwritten reads the handwritten modules SERVER/TOOL.py in dir. The servers
// that it returns have only a Module and Files. It ignores names that Python cannot
// import, and anything but regular files inside dir.
func ReadHandwritten(dir string) ([]Server, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, readFault(dir, err)
	}
	defer root.Close()
	paths, err := fs.Glob(root.FS(), "*/*.py")
	if err != nil || len(paths) > maxFiles {
		return nil, readFault(dir, err)
	}
	var all []Server
	for _, path := range paths {
		module, name, _ := strings.Cut(path, "/")
		if !importable(module, name) {
			continue
		}
		data, err := readModule(root, path)
		if err != nil {
			return nil, readFault(dir+"/"+path, err)
		}
		if data == nil {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Module != module {
			all = append(all, Server{Module: module, Title: "Handwritten modules"})
		}
		last := &all[len(all)-1]
		last.Files = append(last.Files, File{path, data})
	}
	return all, nil
}

func readFault(path string, err error) error {
	return fault.Wrap(fault.Invalid, err, "cannot read the handwritten modules in %s", path).
		WithHint("the directory must contain SERVER/TOOL.py: at most %d files of at most %d bytes, readable by the user that runs Sandpiper", maxFiles, maxFileSize)
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

// handwrittenNames returns the module names of the visible files.
func (s Server) handwrittenNames() (names []string) {
	for _, f := range s.visibleFiles() {
		name := strings.TrimSuffix(strings.TrimPrefix(f.Path, s.Module+"/"), ".py")
		if !strings.HasPrefix(name, "_") {
			names = append(names, name)
		}
	}
	return names
}

// handwrittenFiles returns the files of a server that has only handwritten ones. It
// generates __init__.py if there is none, and appends the stamp to it otherwise.
func handwrittenFiles(s Server) []File {
	files := slices.Clone(s.Files)
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == s.Module+"/"+initName })
	if i < 0 {
		return append(files, File{s.Module + "/" + initName, serverModule(s, nil, nil)})
	}
	files[i].Data = slices.Concat(files[i].Data, []byte("\n"+stamp(s)+"\n"))
	return files
}
