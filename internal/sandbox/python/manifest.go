//go:build linux && (amd64 || arm64)

package python

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// manifest lists the files of an install. It is determined by this binary and the
// overlay.
type manifest struct {
	Key     string  `json:"key"`
	Version string  `json:"version"`
	Files   []entry `json:"files"` // sorted by path
	// Needs lists the libraries that files of a layer load and that it does not contain.
	Needs []string `json:"needs,omitempty"`
}

// entry is a file, directory or symbolic link below root/.
type entry struct {
	Path   string      `json:"path"`
	Mode   fs.FileMode `json:"mode"`
	Size   int64       `json:"size,omitempty"`
	SHA256 string      `json:"sha256,omitempty"`
	Link   string      `json:"link,omitempty"`
}

func sorted(files []entry) []entry {
	return slices.SortedFunc(slices.Values(files), func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
}

func parseManifest(data []byte, key string) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return m, err
	}
	if m.Key != key || len(m.Files) == 0 {
		return m, fmt.Errorf("manifest with key %q and %d files, want key %q", m.Key, len(m.Files), key)
	}
	return m, nil
}

// differences hashes the files in root and returns those that differ from m: modified,
// missing and added files.
func (m manifest) differences(root string) ([]string, error) {
	found := map[string]unix.Stat_t{}
	err := walk(root, func(name string, st *unix.Stat_t) { found[name] = *st })
	if err != nil {
		return nil, err
	}
	bad := make([]bool, len(m.Files))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, e := range m.Files {
		st, ok := found[e.Path]
		delete(found, e.Path)
		g.Go(func() (err error) {
			if ok {
				ok, err = e.matches(root, &st)
			}
			bad[i] = !ok
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var names []string
	for i, e := range m.Files {
		if bad[i] {
			names = append(names, e.Path)
		}
	}
	for added := range found {
		names = append(names, added)
	}
	slices.Sort(names)
	return names, nil
}

// matches reports whether the file in root with the metadata st equals e. It fails if the file
// could not be read although it may be undamaged.
func (e entry) matches(root string, st *unix.Stat_t) (bool, error) {
	if !trusted(st.Uid) {
		return false, nil
	}
	name := filepath.Join(root, filepath.FromSlash(e.Path))
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return e.Mode == fs.ModeDir|fs.FileMode(st.Mode&0o7777), nil
	case unix.S_IFLNK:
		target, err := os.Readlink(name)
		return e.Mode == fs.ModeSymlink && err == nil && target == e.Link, unverified(err)
	case unix.S_IFREG:
		if e.Mode != fs.FileMode(st.Mode&0o7777) || e.Size != st.Size {
			return false, nil
		}
		sum, err := hashFile(name)
		return err == nil && e.SHA256 == sum, unverified(err)
	}
	return false, nil
}

// hashFile returns the SHA-256 of a regular file.
func hashFile(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
