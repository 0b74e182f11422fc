package main

import (
	"archive/zip"
	"context"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenceFile matches the names of files with conditions for redistribution.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-.].*)?$`)

// writeNotices writes the licences of the third-party components of the program to r.notices:
// the modules, Go, Python, pypdf, and the list of names. They are the same for all architectures.
func (r *release) writeNotices(ctx context.Context, dir string) error {
	info, err := buildinfo.ReadFile(r.programs[linux[0]])
	if err != nil {
		return err
	}
	var modules []string
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}
	list, err := output(ctx, r.root, "go", append([]string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}, modules...)...)
	if err != nil {
		return err
	}
	goroot, err := output(ctx, r.root, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("Sandpiper contains the following, under the licences that follow each name.\n")
	add := func(name string, files ...string) error {
		if len(files) == 0 {
			return fmt.Errorf("%s has no licence", name)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return fmt.Errorf("the licence of %s: %w", name, err)
			}
			writeLicence(&b, name, filepath.Base(f), text)
		}
		return nil
	}
	if err := add("Go "+info.GoVersion, filepath.Join(goroot, "LICENSE")); err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files, err := licences(dir)
		if err == nil {
			err = add(name, files...)
		}
		if err == nil && strings.HasPrefix(name, "github.com/kluctl/go-embed-python ") {
			err = add("CPython", filepath.Join(dir, "python/internal/data/linux-amd64/lib/python3.14/LICENSE.txt"))
		}
		if err != nil {
			return err
		}
	}
	if err := addPypdf(&b, r.root); err != nil {
		return err
	}
	if err := add("lists of names and words", filepath.Join(r.root, "internal/privacy/detect/lexicon/names.COPYRIGHT")); err != nil {
		return err
	}
	r.notices = filepath.Join(dir, "NOTICES")
	return os.WriteFile(r.notices, []byte(b.String()), 0o644)
}

func writeLicence(b *strings.Builder, name, file string, text []byte) {
	fmt.Fprintf(b, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("-", 80), name, file, strings.TrimSpace(string(text)))
}

// wheel returns the path and the version of the wheel of pypdf that the programs contain.
func wheel(root string) (path, version string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "internal/feature/form/form/pypdf-*.whl"))
	if err != nil || len(found) != 1 {
		return "", "", fmt.Errorf("there must be one wheel of pypdf, not %d: %w", len(found), err)
	}
	return found[0], strings.Split(filepath.Base(found[0]), "-")[1], nil
}

// addPypdf adds the licence in the wheel of pypdf, and that of the widths of letters in it.
func addPypdf(b *strings.Builder, root string) error {
	path, version, err := wheel(root)
	if err != nil {
		return err
	}
	files, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer files.Close()
	licence, err := fs.ReadFile(files, "pypdf-"+version+".dist-info/licenses/LICENSE")
	if err != nil {
		return err
	}
	widths, err := fs.ReadFile(files, "pypdf/_codecs/core_font_metrics.py")
	if err != nil {
		return err
	}
	start, _, _ := strings.Cut(string(widths), "\n\n")
	writeLicence(b, "pypdf "+version, "LICENSE", licence)
	writeLicence(b, "pypdf "+version, "core_font_metrics.py", []byte(start))
	return nil
}

// licences returns the files with the licences of a module.
func licences(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() && licenceFile.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}
