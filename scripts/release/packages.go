package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const (
	homepage    = "https://github.com/sandpiper-mcp/sandpiper"
	summary     = "MCP server that runs the Python of agents in a sandbox"
	description = summary + ".\nThe code calls the tools of all connected MCP servers as Python modules,\nand only its summary is " +
		"returned to the model."
)

// writePackages writes a deb and an rpm for each architecture.
func writePackages(_ context.Context, r *release) error {
	tmp, err := os.MkdirTemp("", "sandpiper-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, t := range linux {
		contents, err := r.contents(tmp, t)
		if err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.writePackage(tmp, format, t, contents); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) writePackage(tmp, format string, t target, contents files.Contents) error {
	postInstall := filepath.Join(tmp, "postinst")
	if err := os.WriteFile(postInstall, []byte(createUser), 0o755); err != nil {
		return err
	}
	depends := []string{"libc6 (>= 2.17)"}
	if format == "rpm" {
		depends = []string{"glibc >= 2.17"}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name:        "sandpiper",
		Arch:        t.arch,
		Platform:    "linux",
		Version:     r.version,
		Section:     "devel",
		Priority:    "optional",
		Maintainer:  "The Sandpiper authors <sandpiper@localhost>",
		Description: description,
		Homepage:    homepage,
		License:     "MIT",
		MTime:       r.time,
		Overridables: nfpm.Overridables{Depends: depends, Contents: contents, Scripts: nfpm.Scripts{PostInstall: postInstall},
			RPM: nfpm.RPM{BuildHost: "localhost"}},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	p, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return create(filepath.Join(r.dir, p.ConventionalFileName(info)), func(w io.Writer) error { return p.Package(info, w) })
}

// createUser creates the user of the service, which is neither enabled nor started.
const createUser = `#!/bin/sh
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers sandpiper.conf
elif command -v useradd >/dev/null && ! id sandpiper >/dev/null 2>&1; then
	useradd --system --home-dir /var/lib/sandpiper --shell /usr/sbin/nologin sandpiper
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
`

// contents are the installed files.
func (r *release) contents(tmp string, t target) (files.Contents, error) {
	var all files.Contents
	add := func(source, destination string, mode os.FileMode) {
		all = append(all, &files.Content{Source: source, Destination: destination,
			FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}})
	}
	add(r.programs[t], "/usr/bin/sandpiper", 0o755)
	unit, err := os.ReadFile(filepath.Join(r.root, "packaging/sandpiper.service"))
	if err != nil {
		return nil, err
	}
	written := map[string]string{
		"sandpiper.service": strings.ReplaceAll(string(unit), "/usr/local/bin/", "/usr/bin/"),
		"sandpiper.conf":    "u sandpiper - \"Sandpiper\" /var/lib/sandpiper\n",
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	add(filepath.Join(tmp, "sandpiper.service"), "/usr/lib/systemd/system/sandpiper.service", 0o644)
	add(filepath.Join(tmp, "sandpiper.conf"), "/usr/lib/sysusers.d/sandpiper.conf", 0o644)
	add(filepath.Join(r.root, "LICENSE"), "/usr/share/doc/sandpiper/copyright", 0o644)
	add(r.notices, "/usr/share/doc/sandpiper/NOTICES", 0o644)
	add(filepath.Join(r.root, "README.md"), "/usr/share/doc/sandpiper/README.md", 0o644)
	add(filepath.Join(r.extra, "completions/sandpiper.bash"), "/usr/share/bash-completion/completions/sandpiper", 0o644)
	add(filepath.Join(r.extra, "completions/_sandpiper"), "/usr/share/zsh/site-functions/_sandpiper", 0o644)
	add(filepath.Join(r.extra, "completions/sandpiper.fish"), "/usr/share/fish/vendor_completions.d/sandpiper.fish", 0o644)
	pages, err := filepath.Glob(filepath.Join(r.extra, "man/*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		packed := filepath.Join(tmp, filepath.Base(page)+".gz")
		if err := compress(page, packed); err != nil {
			return nil, err
		}
		add(packed, "/usr/share/man/man1/"+filepath.Base(packed), 0o644)
	}
	return all, nil
}

// compress writes a gzip file without name and time.
func compress(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}
