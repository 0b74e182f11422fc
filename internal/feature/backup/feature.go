// Package backup copies data: all of a data directory to one file and back, and one tenant to another data
// directory.
//
// A backup is for the same master key, which it does not contain; an export of a tenant is for any other
// data directory, and always encrypted. Both may be encrypted in the format of age. Package home copies and
// creates the data of one tenant; this one has the files, their checks and the commands.
//
// Backups may be used concurrently, beside daemons and commands on the same data directory.
package backup

import (
	"log/slog"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// Feature returns the feature: the commands backup and restore, and export and import for tenants.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name: "backup",
			Start: func(core daemon.Core) (daemon.Part, error) {
				return daemon.Part{Value: &Backups{dataDir(core.Config().DataDir), core.Homes, core.Log}}, nil
			},
		},
		Docs:     "backup.md",
		Commands: commands,
	}
}

// Backups writes and restores backups of the data directory.
type Backups struct {
	dir   dataDir
	homes *home.Homes
	log   *slog.Logger
}

// dataDir is the path of the data directory.
type dataDir string

// sub returns the path of a file or directory in it.
func (d dataDir) sub(name string) string { return filepath.Join(string(d), name) }

// key returns the key file.
func (d dataDir) key() secret.KeyFile { return secret.KeyFile(d.sub("key")) }

// purpose is the purpose of the key, derived from the master key, that proves who wrote a backup.
const purpose = "backup"
