//go:build linux && (amd64 || arm64)

package python

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	_ "unsafe" // for go:linkname

	_ "github.com/kluctl/go-embed-python/python" // carries the data that embedded is linked to
)

// embedded is the file system in which go-embed-python embeds CPython. It is not
// exported: the only API is an extractor that also writes 85 MB of copies of the
// executable, sequentially, into a directory that it does not check. The version in
// go.mod is exact; a test fails if this link breaks.
//
//go:linkname embedded github.com/kluctl/go-embed-python/python/internal/data.Data
var embedded fs.FS

// format is part of every install's key: increase it when the layout or the build of
// an install changes.
const format = 1

// packed is one line of the distribution's list of files.
type packed struct {
	Name    string      `json:"name"`
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"perm"`
	Symlink string      `json:"symlink"`
}

// distribution returns the embedded files to install; a directory precedes its entries.
func distribution() ([]packed, error) {
	list, err := listEmbedded(embedded)
	installs := Installer()
	return slices.DeleteFunc(list, func(p packed) bool { return !installs(p.Name) }), err
}

// listEmbedded returns all files that go-embed-python embeds in one file system.
func listEmbedded(files fs.FS) ([]packed, error) {
	data, err := fs.ReadFile(files, "files.json")
	if err != nil {
		return nil, err
	}
	var list struct{ Files []packed }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading the list of embedded files: %w", err)
	}
	return list.Files, nil
}

// open returns the content of p in from. The library compresses some files, and the build
// of a release all.
func (p packed) open(from fs.FS) (io.ReadCloser, error) {
	f, err := from.Open(p.Name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	data, err := fs.ReadFile(from, p.Name+".gz")
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(bytes.NewReader(data))
}

// contentKey returns a hash of everything that determines the content of an install.
func contentKey(overlay fs.FS) (string, error) {
	list, err := fs.ReadFile(embedded, "files.json") // contains a hash of all content
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, format, Version, runtime.GOARCH, kept, dropped, inside)
	fmt.Fprintf(h, "%d %s%d %s", len(list), list, len(compiler), compiler)
	if overlay != nil {
		if err := hashFiles(h, overlay); err != nil {
			return "", fmt.Errorf("reading the overlay: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func hashFiles(h io.Writer, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		fmt.Fprintf(h, "%d %s%d %s", len(name), name, len(data), data)
		return err
	})
}
