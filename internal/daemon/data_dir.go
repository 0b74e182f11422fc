package daemon

import (
	"errors"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// dataDir is the path of the data directory.
type dataDir string

// sub returns the path of a file or directory in it.
func (d dataDir) sub(name string) string { return filepath.Join(string(d), name) }

// key returns the key file.
func (d dataDir) key() secret.KeyFile { return secret.KeyFile(d.sub("key")) }

// instances returns the directory of running daemons.
func (d dataDir) instances() instances { return instances(d.sub("daemons")) }

// logins returns the store of logins, whose key the other keys are derived from.
func (d dataDir) logins() *secret.Store { return secret.NewStore(d.sub("logins"), d.sub("key")) }

// derive derives the key for one purpose from the key of the data directory.
func (d dataDir) derive(purpose, of string, create bool) ([]byte, error) {
	key, err := d.logins().DeriveKey(purpose, create)
	if errors.Is(err, secret.ErrUndecryptable) {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of %s is lost or damaged", of).
			WithHint("restore the file key in %s from a backup; docs/audit.md describes how to start over", d)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return nil, f
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of %s cannot be read or created", of).
			WithHint("the file key in %s must be readable by the user that runs Sandpiper", d)
	}
	return key, nil
}
