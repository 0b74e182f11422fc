package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// changes records changes of the configuration.
type changes struct {
	dir      dataDir
	sections map[string]string // of the configuration, as hashes
	locks    map[string]string // of packages: lock file by section
	audit    *audit.Log
}

// lockFiles returns the lock files of all package layers, by the name of their section.
func (d reloader) lockFiles() map[string]string {
	all := map[string]string{"packages": d.cfg.Packages.LockFile}
	for name, l := range d.now().PackageLayers {
		all["packages."+name] = l.LockFile
	}
	return all
}

// record writes to the audit log which sections of the configuration have changed since
// the last start.
func (c changes) record() error {
	now, err := c.fingerprints()
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir.sub("audit"), "configuration")
	var last map[string]string
	b, err := os.ReadFile(path)
	known := err == nil && json.Unmarshal(b, &last) == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if known && maps.Equal(now, last) {
		return nil
	}
	lines := []audit.Line{{Kind: audit.Configuration, Outcome: "first_seen"}}
	if known {
		lines = nil
		for _, name := range changedNames(now, last) {
			lines = append(lines, audit.Line{Kind: audit.Configuration, Outcome: "changed", Section: name})
		}
	}
	for _, line := range lines {
		if err := c.audit.Append(context.Background(), line); err != nil {
			return err
		}
	}
	if b, err = json.Marshal(now); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// changedNames returns the sorted names whose values differ.
func changedNames(a, b map[string]string) (names []string) {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	return names
}

// fingerprints returns a keyed hash of each section of the configuration and of the
// package lock. The key protects sections whose text can be guessed.
func (c changes) fingerprints() (map[string]string, error) {
	key, err := c.dir.logins().DeriveKey("configuration", true)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	maps.Copy(all, c.sections)
	for section, file := range c.locks {
		lock, err := os.ReadFile(file)
		if fault.Inconclusive(err) {
			return nil, err
		}
		if err == nil {
			all[section] = string(lock)
		}
	}
	for name, text := range all {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		all[name] = hex.EncodeToString(mac.Sum(nil))
	}
	return all, nil
}
