// Package local installs embedding models in a directory and opens them.
//
// A model is installed from a directory, a wheel or another zip file, or a URL with a
// checksum, and is one file in the format of bert. It is complete under a temporary name, and
// has been tried, before it replaces a file under its name. Nothing is downloaded except
// the URL that the operator names, and nothing is sent.
//
// A Store may be used by several processes at once.
package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// Store is the directory of the installed models.
type Store string

const (
	extension  = ".model"
	unfinished = ".new-*" // temporary files
)

// Model is an installed model.
type Model struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Path  string `json:"path"`
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,39}$`)

// path returns the file of a model.
func (s Store) path(name string) (string, error) {
	if !validName.MatchString(name) {
		return "", fault.New(fault.Invalid, "%.60q is not a name of a model", name).
			WithHint("use up to 40 lower-case letters, digits, dots and hyphens, such as minilm")
	}
	return filepath.Join(string(s), name+extension), nil
}

// Check returns an error if a model cannot have the name.
func (s Store) Check(name string) error {
	_, err := s.path(name)
	return err
}

// Open opens an installed model.
func (s Store) Open(name string) (*bert.Model, error) {
	path, err := s.path(name)
	if err != nil {
		return nil, err
	}
	m, err := bert.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notInstalled(name, err)
	}
	if err != nil && fault.KindOf(err) == fault.Internal {
		return nil, fault.Wrap(fault.Unavailable, err, "the embedding model %s cannot be read", name).
			WithHint("check the permissions of %s", path)
	}
	return m, err
}

// CheckInstalled returns an error if no model has the name, and reads no file.
func (s Store) CheckInstalled(name string) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return notInstalled(name, err)
	}
	return nil
}

func notInstalled(name string, cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "the embedding model %s is not installed", name).
		WithHint("install it with `sandpiper models add %s DIRECTORY|WHEEL|URL`", name)
}

// Checksum returns the checksum that a model file states, which it does not verify.
func (s Store) Checksum(name string) (string, error) {
	path, err := s.path(name)
	if err != nil {
		return "", err
	}
	sum, err := bert.Checksum(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", unknown(name, err)
	}
	if err != nil {
		return "", s.broken(err)
	}
	return sum, nil
}

func unknown(name string, cause error) error {
	return fault.Wrap(fault.NotFound, cause, "no model %s is installed", name).WithHint("`sandpiper models list` lists the models")
}

// List returns the installed models by name.
func (s Store) List() ([]Model, error) {
	entries, err := os.ReadDir(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.broken(err)
	}
	var all []Model
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), extension)
		info, err := e.Info()
		if ok && err == nil && validName.MatchString(name) && info.Mode().IsRegular() {
			all = append(all, Model{name, info.Size(), filepath.Join(string(s), e.Name())})
		}
	}
	return all, nil
}

// Remove removes an installed model.
func (s Store) Remove(name string) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return unknown(name, err)
	}
	if err != nil {
		return s.broken(err)
	}
	return durable.SyncDir(string(s))
}

// Add installs a model, and replaces one of the same name.
func (s Store) Add(ctx context.Context, name string, from Source) (Model, error) {
	path, err := s.path(name)
	if err != nil {
		return Model{}, err
	}
	if err := os.MkdirAll(string(s), 0o700); err != nil {
		return Model{}, s.broken(err)
	}
	lock := flock.New(filepath.Join(string(s), ".lock"), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); !ok {
		return Model{}, fault.Wrap(fault.Unavailable, err, "another process is installing a model").
			WithHint("try again when it has finished")
	}
	defer lock.Unlock()
	if err := s.clean(); err != nil {
		return Model{}, s.broken(err)
	}
	files, closeFiles, err := s.open(ctx, from)
	if err != nil {
		return Model{}, err
	}
	defer closeFiles()
	if err := s.install(path, files); err != nil {
		return Model{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Model{}, s.broken(err)
	}
	return Model{name, info.Size(), path}, nil
}

// clean removes what a killed process left. The caller holds the lock.
func (s Store) clean() error {
	left, err := filepath.Glob(filepath.Join(string(s), unfinished))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// install converts files to a model, tries it, and renames it to path.
func (s Store) install(path string, files fs.FS) error {
	f, err := os.CreateTemp(string(s), unfinished)
	if err != nil {
		return s.broken(err)
	}
	defer os.Remove(f.Name())
	err = bert.Convert(f, files)
	if fault.KindOf(err) == fault.Invalid {
		f.Close()
		return err
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return s.broken(err)
	}
	if err := try(f.Name()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return s.broken(err)
	}
	return durable.SyncDir(string(s))
}

// try embeds a text with a model.
func try(path string) error {
	m, err := bert.Open(path)
	if err != nil {
		return err
	}
	v, err := m.Embed("list the open issues of a repository", func() error { return nil })
	if err = errors.Join(err, m.Close()); err != nil {
		return err
	}
	sum := float32(0)
	for _, x := range v {
		sum += x * x
	}
	if !(sum > 0 && sum < 1e6) {
		return fault.New(fault.Invalid, "the weights of the model are invalid: a vector has the length %v", sum).
			WithHint("download the model again")
	}
	return nil
}

func (s Store) broken(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the directory of models, %s, cannot be read or written", s).
		WithHint("check its permissions and the free disk space")
}
