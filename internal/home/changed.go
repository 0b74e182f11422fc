package home

import (
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Changed records a change of a feature's data of the tenant, for other processes.
func (h *Home) Changed(feature string) error {
	path := changeFile(h.parts.private, feature)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// LastChange returns when a process last called Home.Changed of a tenant for a feature; zero if none
// did. It does not open the home, so that it can be called often.
func (t Directory) LastChange(id tenant.ID, feature string) time.Time {
	fi, err := os.Stat(changeFile(t.layout.of(id).private, feature))
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

func changeFile(private, feature string) string { return filepath.Join(private, "changed."+feature) }
