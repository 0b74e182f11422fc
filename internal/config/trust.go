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

// trustStore stores the project files that the user trusts: one file per path, with the
// hash of the content that was shown. It is a directory in the user's configuration
// directory, which only the user may write. Its path depends on the environment of the
// process, and not on anything that a project can set.
type trustStore struct{ dir string } // "" trusts nothing

// trusted is the entry of one file.
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

// file returns the file of the entry of path.
func (t trustStore) file(path string) string {
	return filepath.Join(t.dir, hashOf([]byte(path))+".json")
}

// hash returns the trusted hash of path, "" if it is not trusted. It ignores entries
// that other users could have written. It fails if the entry may exist: without a trusted file the
// settings could be less strict.
func (t trustStore) hash(path string) (string, error) {
	if t.dir == "" || !privately(t.dir) {
		return "", nil
	}
	one, err := t.read(t.file(path))
	if fault.Inconclusive(err) {
		return "", fault.Wrap(fault.Unavailable, err, "the trust in %s cannot be read: %v", path, err)
	}
	if err != nil || one.Path != path {
		return "", nil
	}
	return one.Hash, nil
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

// put trusts the content of path with the given hash.
func (t trustStore) put(path, hash string) error {
	if t.dir == "" {
		return fault.New(fault.Invalid, "there is no configuration directory to store trust in").WithHint("set HOME or XDG_CONFIG_HOME")
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of trusted files: %w", err)
	}
	if !privately(t.dir) {
		return fault.New(fault.Unavailable, "other users can write to %s, so its content is not trusted", t.dir).
			WithHint("make it yours alone: chmod go-w, and chown if it belongs to somebody else")
	}
	data, err := json.Marshal(trusted{path, hash})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(t.file(path), data); err != nil {
		return fmt.Errorf("write the trust in %s: %w", path, err)
	}
	return nil
}

// remove removes the trust in path, and reports whether it was trusted.
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

// list returns the trusted paths, sorted.
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
