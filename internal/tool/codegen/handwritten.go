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

// Bounds on what somebody wrote by hand.
const (
	mostByHand    = 2_000
	longestByHand = 1 << 20 // bytes of a file
)

// ReadHandwritten reads the modules SERVER/TOOL.py in dir that somebody wrote by hand.
// What it returns are servers with a Module and Files. What no import could name,
// and what is no regular file beneath dir, is left out.
func ReadHandwritten(dir string) ([]Server, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, byHandFault(dir, err)
	}
	defer root.Close()
	paths, err := fs.Glob(root.FS(), "*/*.py")
	if err != nil || len(paths) > mostByHand {
		return nil, byHandFault(dir, err)
	}
	var all []Server
	for _, path := range paths {
		module, name, _ := strings.Cut(path, "/")
		if !importable(module, name) {
			continue
		}
		data, err := readByHand(root, path)
		if err != nil {
			return nil, byHandFault(dir+"/"+path, err)
		}
		if data == nil {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Module != module {
			all = append(all, Server{Module: module, Title: "Modules written by hand"})
		}
		last := &all[len(all)-1]
		last.Files = append(last.Files, File{path, data})
	}
	return all, nil
}

func byHandFault(path string, err error) error {
	return fault.Wrap(fault.Invalid, err, "the modules written by hand in %s cannot be read", path).
		WithHint("it must hold SERVER/TOOL.py, at most %d files of at most %d bytes, readable for the user that runs Sandpiper", mostByHand, longestByHand)
}

// importable says whether Python can name a module, as we would name it.
func importable(module, name string) bool {
	stem := strings.TrimSuffix(name, ".py")
	return tool.ModuleNames([]string{module})[module] == module && (name == initName || tool.ParamNames([]string{stem})[stem] == stem)
}

// readByHand returns nil for what is no file.
func readByHand(root *os.Root, path string) ([]byte, error) {
	info, err := root.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil // a link that leads out, too
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, longestByHand+1))
	if err == nil && len(data) > longestByHand {
		err = fmt.Errorf("more than %d bytes", longestByHand)
	}
	if data == nil {
		data = []byte{}
	}
	return data, err
}

func (s Server) isByHand() bool { return s.Name == "" && len(s.Files) > 0 }

// Shadowed are the paths of files that somebody wrote by hand and that nobody sees,
// since the server has generated ones of the same names.
func (s Server) Shadowed() (paths []string) {
	names := toolNames(distinct(s.Tools))
	made := map[string]bool{s.Module + "/" + initName: true, s.Module + "/aio.py": true}
	made[s.Module+"/resources.py"], made[s.Module+"/prompts.py"] = s.Resources, s.Prompts
	for _, name := range names {
		made[s.Module+"/"+name+".py"] = true
	}
	for _, f := range s.Files {
		if !s.isByHand() && made[f.Path] {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// beside are the files written by hand that are seen.
func (s Server) beside() []File {
	hidden := s.Shadowed()
	return slices.DeleteFunc(slices.Clone(s.Files), func(f File) bool { return slices.Contains(hidden, f.Path) })
}

// written are the names under which code imports them.
func (s Server) written() (names []string) {
	for _, f := range s.beside() {
		name := strings.TrimSuffix(strings.TrimPrefix(f.Path, s.Module+"/"), ".py")
		if !strings.HasPrefix(name, "_") {
			names = append(names, name)
		}
	}
	return names
}

// byHand are the files of a package that nobody generated. Its __init__.py says
// what there is, or is what somebody wrote, with the stamp.
func byHand(s Server) []File {
	files := slices.Clone(s.Files)
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == s.Module+"/"+initName })
	if i < 0 {
		return append(files, File{s.Module + "/" + initName, serverModule(s, nil, nil)})
	}
	files[i].Data = slices.Concat(files[i].Data, []byte("\n"+stamp(s)+"\n"))
	return files
}
