package home

import (
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// touchWorkflows records that a workflow was saved or deleted.
func (p paths) touchWorkflows() error {
	f, err := os.OpenFile(p.workflows, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(p.workflows, now, now)
}

// WorkflowsChanged returns when a process last saved or deleted a workflow of a tenant; zero if none
// did. It does not open the home, so that it can be called often.
func (t *Homes) WorkflowsChanged(id tenant.ID) time.Time {
	fi, err := os.Stat(t.layout.of(id).workflows)
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}
