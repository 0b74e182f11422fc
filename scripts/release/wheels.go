package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// wheelArch are the architectures as Python names them.
var wheelArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// writeWheels writes a wheel for each architecture: the Python client with the program in it,
// and the command sandpiper-mcp. The embedded Python needs glibc 2.17.
func writeWheels(ctx context.Context, r *release) error {
	version := pep440(r.version)
	for _, t := range linux {
		tag := "py3-none-manylinux_2_17_" + wheelArch[t.arch] + ".manylinux2014_" + wheelArch[t.arch]
		info := fmt.Sprintf("sandpiper_mcp-%s.dist-info/", version)
		files, err := r.client(ctx)
		if err != nil {
			return err
		}
		metadata, err := r.metadata(version)
		if err != nil {
			return err
		}
		files = append(files,
			file{name: "sandpiper/bin/sandpiper", path: r.programs[t], mode: 0o755},
			file{name: info + "METADATA", content: metadata, mode: 0o644},
			file{name: info + "WHEEL", content: "Wheel-Version: 1.0\nGenerator: sandpiper\nRoot-Is-Purelib: false\n" + tags(tag),
				mode: 0o644},
			file{name: info + "entry_points.txt", content: "[console_scripts]\nsandpiper = sandpiper.__main__:main\nsandpiper-mcp = " +
				"sandpiper.__main__:main\n", mode: 0o644},
			file{name: info + "licenses/LICENSE", path: filepath.Join(r.root, "LICENSE"), mode: 0o644},
			file{name: info + "licenses/NOTICES", path: r.notices, mode: 0o644})
		record, err := recordOf(files, info+"RECORD")
		if err != nil {
			return err
		}
		files = append(files, file{name: info + "RECORD", content: record, mode: 0o644})
		if err := writeZip(filepath.Join(r.dir, fmt.Sprintf("sandpiper_mcp-%s-%s.whl", version, tag)), r.time, files); err != nil {
			return err
		}
	}
	return nil
}

// pep440 returns a version as Python writes it: 1.2.3-rc.1 is 1.2.3rc1.
func pep440(version string) string {
	release, pre, _ := strings.Cut(version, "-")
	for long, short := range map[string]string{"alpha": "a", "beta": "b"} {
		pre = strings.Replace(pre, long, short, 1)
	}
	return release + strings.ReplaceAll(pre, ".", "")
}

// tags expands a compressed tag of a file name.
func tags(compressed string) string {
	parts := strings.SplitN(compressed, "-", 3)
	var lines strings.Builder
	for platform := range strings.SplitSeq(parts[2], ".") {
		fmt.Fprintf(&lines, "Tag: %s-%s-%s\n", parts[0], parts[1], platform)
	}
	return lines.String()
}

// client returns the files of the Python client that are in the repository.
func (r *release) client(ctx context.Context) ([]file, error) {
	const source = "clients/python/src"
	listed, err := output(ctx, r.root, "git", "ls-files", "-z", source)
	if err != nil {
		return nil, err
	}
	var files []file
	for path := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		files = append(files, file{name: strings.TrimPrefix(path, source+"/"), path: filepath.Join(r.root, path), mode: fs.FileMode(0o644)})
	}
	return files, nil
}

// metadata returns METADATA with the values of pyproject.toml that have no fixed form.
func (r *release) metadata(version string) (string, error) {
	var project, readme strings.Builder
	if err := (file{path: filepath.Join(r.root, "clients/python/pyproject.toml")}).copyTo(&project); err != nil {
		return "", err
	}
	if err := (file{path: filepath.Join(r.root, "clients/python/README.md")}).copyTo(&readme); err != nil {
		return "", err
	}
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + ` = "(.*)"$`).FindStringSubmatch(project.String())
		if m == nil {
			return ""
		}
		return m[1]
	}
	if value("name") != "sandpiper-mcp" || value("requires-python") == "" {
		return "", fmt.Errorf("clients/python/pyproject.toml has no name sandpiper-mcp or no requires-python")
	}
	return fmt.Sprintf("Metadata-Version: 2.4\nName: sandpiper-mcp\nVersion: %s\nSummary: %s\nHome-page: %s\nLicense-Expression: "+
		"MIT\nLicense-File: LICENSE\nLicense-File: NOTICES\nRequires-Python: %s\nDescription-Content-Type: text/markdown\n\n%s",
		version, summary, homepage, value("requires-python"), readme.String()), nil
}

// recordOf returns RECORD, the list of files with their sums; name is its own name.
func recordOf(files []file, name string) (string, error) {
	var lines []string
	for _, f := range files {
		h := sha256.New()
		in, size, err := f.open()
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(h.Sum(nil)), size))
	}
	slices.Sort(lines)
	return strings.Join(lines, "") + name + ",,\n", nil
}
