package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenceFile matches the names of files with conditions for redistribution.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-.].*)?$`)

// writeNotices writes the licences of the third-party components of the program to r.notices:
// the modules, Go, Python, and the list of names. They are the same for all architectures.
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
			fmt.Fprintf(&b, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("-", 80), name, filepath.Base(f), strings.TrimSpace(string(text)))
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
	if err := add("lists of names and words", filepath.Join(r.root, "internal/privacy/detect/lexicon/names.COPYRIGHT")); err != nil {
		return err
	}
	r.notices = filepath.Join(dir, "NOTICES")
	return os.WriteFile(r.notices, []byte(b.String()), 0o644)
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
