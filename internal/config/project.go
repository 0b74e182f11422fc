package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// State is the trust state of a project file.
type State string

// The states of a ProjectFile.
const (
	Trusted State = "trusted"
	Changed State = "changed" // changed since it was trusted; not read
	New     State = "new"     // never trusted; not read
)

// ProjectFile is a configuration file in the working directory. It is read once, so
// that the hashed content is the parsed content.
type ProjectFile struct {
	Path  string `json:"path"`
	Hash  string `json:"sha256"`
	State State  `json:"state"`

	key  string // the path with symbolic links resolved, which trust is bound to
	data []byte
}

// Name returns the base name of the file.
func (f ProjectFile) Name() string { return filepath.Base(f.Path) }

// Project returns the project files in the working directory: sandpiper.yaml or, if
// there is none, a seed's config.yaml; and .env.
func Project(src Sources) ([]ProjectFile, error) {
	env := environment(src.Environ)
	if src.File != "" || src.Text != "" || env["SANDPIPER_CONFIG"] != "" || sameDir(src.Dir, directories(env).config) {
		return nil, nil // a named file replaces project files
	}
	dir, err := filepath.EvalSymlinks(src.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	store := openTrust(env)
	var all []ProjectFile
	for _, name := range []string{"sandpiper.yaml", "config.yaml", ".env"} {
		if name == "config.yaml" && len(all) > 0 {
			continue
		}
		f := ProjectFile{Path: filepath.Join(src.Dir, name), key: filepath.Join(dir, name), State: New}
		f.data, err = readFile(f.Path)
		if fault.Inconclusive(err) {
			return nil, unreadable(f.Path, err)
		}
		if errors.Is(err, fs.ErrNotExist) || err != nil && name != "sandpiper.yaml" {
			continue
		}
		if err == nil {
			if !f.concerns(len(all) > 0) {
				continue
			}
			f.Hash = hashOf(f.data)
			if err := f.judge(store, src.Assume); err != nil {
				return nil, err
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// judge determines the trust state of f.
func (f *ProjectFile) judge(store trustStore, assumed map[string]string) error {
	switch hash, err := store.hash(f.key); {
	case err != nil:
		return err
	case hash == f.Hash, assumed[f.Path] == f.Hash:
		f.State = Trusted
	case hash != "":
		f.State = Changed
	}
	return nil
}

var (
	sectionName = regexp.MustCompile(`(?m)(?:^|^\s*\{\s*|,\s*)["']?([A-Za-z_]+)["']?\s*:`)
	envName     = regexp.MustCompile(`(?m)^\s*(?:export\s+)?(?:SANDPIPER_|MSB_|GUARDRAILS_|(?:AGENTIC_SYSTEM_PATH|SERVERS_DIR|SKILLS_DIR|WORKSPACE_DIR)\s*=)`)
)

// concerns reports whether the content looks like Sandpiper's, without parsing an
// untrusted file. Many programs have a config.yaml or a .env.
func (f *ProjectFile) concerns(beside bool) bool {
	switch f.Name() {
	case "config.yaml":
		return slices.ContainsFunc(sectionName.FindAllStringSubmatch(string(f.data), -1),
			func(m []string) bool { return isSeedSection(m[1]) })
	case ".env":
		return beside || envName.Match(f.data)
	}
	return true
}

// isSeedSection reports whether name is a section of a seed's config.yaml, or similar
// to one.
func isSeedSection(name string) bool {
	return slices.ContainsFunc([]string{"execution", "guardrails", "mcp_servers"}, func(section string) bool {
		return name == section || len(name) > 6 && fault.EditDistance(name, section) <= 2
	})
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil || b == "" {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Trust trusts the files of a project with their content in files.
func Trust(environ []string, files []ProjectFile) error {
	store := openTrust(environment(environ))
	for _, f := range files {
		if f.Hash == "" {
			return fault.New(fault.Invalid, "%s cannot be read", f.Path).WithHint("it must be a regular file of at most %d bytes", maxFile)
		}
		if err := store.put(f.key, f.Hash); err != nil {
			return err
		}
	}
	return nil
}

// Distrust removes the trust in the files of a directory, and returns those that were
// trusted.
func Distrust(environ []string, dir string) (removed []string, err error) {
	store := openTrust(environment(environ))
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // a deleted directory keeps its name
	}
	for _, name := range []string{"sandpiper.yaml", "config.yaml", ".env"} {
		path := filepath.Join(dir, name)
		had, err := store.remove(path)
		if err != nil {
			return removed, fmt.Errorf("forget the trust in %s: %w", path, err)
		}
		if had {
			removed = append(removed, path)
		}
	}
	return removed, nil
}

// TrustedFiles returns the paths of all trusted project files.
func TrustedFiles(environ []string) []string { return openTrust(environment(environ)).list() }

// inside reports whether path is in dir, with symbolic links resolved. For a path that
// does not exist, its nearest existing directory counts.
func inside(dir, path string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			rel, err := filepath.Rel(dir, filepath.Join(real, rest))
			return err == nil && filepath.IsLocal(rel)
		}
		if _, exists := os.Lstat(path); exists == nil || filepath.Dir(path) == path {
			return false // a dangling link
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

// project reads the trusted project files.
func (l *loader) readProject(files []ProjectFile) {
	for _, f := range files {
		if f.State != Trusted {
			continue
		}
		l.files = append(l.files, f.Path)
		if f.Name() == ".env" {
			l.parseDotenv(f.data, l.dir)
			continue
		}
		settings, err := l.table.settingsIn(f.Path, f.data)
		if err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		l.take(f.Path, settings)
	}
}

// untrusted returns the names of the files that are not read.
func untrusted(files []ProjectFile) (names []string) {
	for _, f := range files {
		switch f.State {
		case New:
			names = append(names, f.Name())
		case Changed:
			names = append(names, f.Name()+" (changed)")
		}
	}
	return names
}

// references returns the variables that settings refer to.
func references(settings []setting) map[string]bool {
	names := map[string]bool{}
	for _, s := range settings {
		text := s.text
		if s.node != nil {
			text = s.node.String()
		}
		for {
			_, rest, _ := strings.Cut(text, "${")
			name, after, ok := strings.Cut(rest, "}")
			if !ok {
				break
			}
			names[name] = true
			text = after
		}
	}
	return names
}
