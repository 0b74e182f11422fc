package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// trustStore keeps which files of projects the user trusts: one file for each
// path, with the hash of the content that was shown. It is a directory in the
// user's configuration directory, which only the user may write. Its place comes
// from the environment of the process and from nothing that a project can set.
type trustStore struct{ dir string } // "" trusts nothing

// trusted is what is kept of one file.
type trusted struct {
	Path string `json:"path"`
	Hash string `json:"sha256"`
}

func openTrust(env map[string]string) trustStore {
	dir := directories(env).config
	if dir == "" {
		return trustStore{}
	}
	return trustStore{filepath.Join(dir, "trust")}
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// file is where the trust in a path is kept.
func (t trustStore) file(path string) string {
	return filepath.Join(t.dir, hashOf([]byte(path))+".json")
}

// hash returns the hash that path is trusted with, "" for none. What others could
// have written counts as none.
func (t trustStore) hash(path string) string {
	if t.dir == "" || !privately(t.dir) {
		return ""
	}
	one, err := t.read(t.file(path))
	if err != nil || one.Path != path {
		return ""
	}
	return one.Hash
}

func (t trustStore) read(file string) (one trusted, err error) {
	if !privately(file) {
		return one, fmt.Errorf("%s could have been written by another user", file)
	}
	data, err := readFile(file)
	if err == nil {
		err = json.Unmarshal(data, &one)
	}
	return one, err
}

// put trusts the content of path that has a hash.
func (t trustStore) put(path, hash string) error {
	if t.dir == "" {
		return fault.New(fault.Invalid, "there is no configuration directory to keep trust in").WithHint("set HOME or XDG_CONFIG_HOME")
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of trusted files: %w", err)
	}
	if !privately(t.dir) {
		return fault.New(fault.Unavailable, "other users can write to %s, so that what is kept there is not trusted", t.dir).
			WithHint("make it yours alone: chmod go-w, and chown if it belongs to somebody else")
	}
	data, err := json.Marshal(trusted{path, hash})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(t.dir, ".new-") // 0600
	if err != nil {
		return fmt.Errorf("write the trust in %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), t.file(path))
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(t.file(path)))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write the trust in %s: %w", path, err)
	}
	return nil
}

// remove reports whether path was trusted, and trusts it no longer.
func (t trustStore) remove(path string) (bool, error) {
	if t.dir == "" {
		return false, nil
	}
	err := os.Remove(t.file(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// list returns the paths that are trusted, sorted.
func (t trustStore) list() []string {
	var paths []string
	if t.dir == "" || !privately(t.dir) {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(t.dir, "*.json"))
	for _, file := range files {
		if one, err := t.read(file); err == nil && t.file(one.Path) == file {
			paths = append(paths, one.Path)
		}
	}
	slices.Sort(paths)
	return paths
}
