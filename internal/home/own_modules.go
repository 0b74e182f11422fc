package home

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// OwnModules returns the key of generated modules that only one tenant sees.
func OwnModules(key string, id tenant.ID) string { return key + ownModules(id) }

func ownModules(id tenant.ID) string { return "+" + id.Dir() }

// TypesFile returns the file of the types that were inferred from results and are in the modules of a
// directory.
func TypesFile(modules string) string { return modules + typesSuffix }

const typesSuffix = ".types"

// emptyModules removes the types and the modules of a tenant, whose directories daemons may use later.
func emptyModules(servers string, id tenant.ID) error {
	entries, err := os.ReadDir(servers)
	for _, e := range entries {
		path := filepath.Join(servers, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ownModules(id)+typesSuffix):
			err = errors.Join(err, os.Remove(path))
		case strings.HasSuffix(e.Name(), ownModules(id)) && e.IsDir():
			err = errors.Join(err, removeEntries(path))
		}
	}
	return err
}

func removeEntries(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
