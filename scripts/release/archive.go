package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive. It has content, or is read from path.
type file struct {
	name    string
	content string
	path    string
	mode    fs.FileMode
}

func (f file) open() (io.ReadCloser, int64, error) {
	if f.path == "" {
		return io.NopCloser(strings.NewReader(f.content)), int64(len(f.content)), nil
	}
	in, err := os.Open(f.path)
	if err != nil {
		return nil, 0, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, in.Close())
	}
	return in, info.Size(), nil
}

// copyTo writes the content of the file.
func (f file) copyTo(w io.Writer) error {
	in, _, err := f.open()
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// writeTar writes files in order of their names, with the time of the release and owner 0.
func writeTar(w io.Writer, at time.Time, files []file) error {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	out := tar.NewWriter(w)
	for _, f := range files {
		in, size, err := f.open()
		if err != nil {
			return err
		}
		err = out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.name,
			Size:     size,
			Mode:     int64(f.mode),
			ModTime:  at,
			Format:   tar.FormatPAX,
		})
		if err == nil {
			_, err = io.Copy(out, in)
		}
		if err := errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return out.Close()
}

// writeTarGz writes a new compressed archive.
func writeTarGz(path string, at time.Time, files []file) error {
	return create(path, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(writeTar(z, at, files), z.Close())
	})
}

// writeZip writes a new zip archive, in the given order.
func writeZip(path string, at time.Time, files []file) error {
	return create(path, func(w io.Writer) error {
		out := zip.NewWriter(w)
		for _, f := range files {
			h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
			h.SetMode(f.mode)
			entry, err := out.CreateHeader(h)
			if err == nil {
				err = f.copyTo(entry)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return out.Close()
	})
}

// create writes a new file.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// documents returns the other files of every archive.
func (r *release) documents() ([]file, error) {
	files := []file{
		{name: "LICENSE", path: filepath.Join(r.root, "LICENSE"), mode: 0o644},
		{name: "NOTICES", path: r.notices, mode: 0o644},
		{name: "README.md", path: filepath.Join(r.root, "README.md"), mode: 0o644},
		{name: "sandpiper.service", path: filepath.Join(r.root, "packaging/sandpiper.service"), mode: 0o644},
		{name: "seccomp.json", path: filepath.Join(r.root, "packaging/seccomp.json"), mode: 0o644},
	}
	err := filepath.WalkDir(r.extra, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(r.extra, path)
			files = append(files, file{name: filepath.ToSlash(name), path: path, mode: 0o644})
		}
		return err
	})
	return files, err
}

// writeArchives writes sandpiper_VERSION_linux_ARCH.tar.gz.
func writeArchives(_ context.Context, r *release) error {
	for _, t := range linux {
		files, err := r.documents()
		if err != nil {
			return err
		}
		files = append(files, file{name: "sandpiper", path: r.programs[t], mode: 0o755})
		name := fmt.Sprintf("sandpiper_%s_%s", r.version, t)
		for i := range files {
			files[i].name = name + "/" + files[i].name
		}
		if err := writeTarGz(filepath.Join(r.dir, name+".tar.gz"), r.time, files); err != nil {
			return err
		}
	}
	return nil
}

// writeChecksums writes the SHA-256 sums of all files, as sha256sum does.
func writeChecksums(r *release) error {
	var lines strings.Builder
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, err := sumOf(path)
		name, _ := filepath.Rel(r.dir, path)
		fmt.Fprintf(&lines, "%s  %s\n", sum, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, "checksums.txt"), []byte(lines.String()), 0o644)
}

func sumOf(path string) (string, error) {
	h := sha256.New()
	err := file{path: path}.copyTo(h)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
