package daemon

import (
	"cmp"
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Probe reports the isolation in force by attacking it. It waits until the sandbox is
// ready.
func Probe(ctx context.Context, d *Daemon) sandbox.Report {
	return sandboxes{d}.probe(ctx, d.cfg.Environment())
}

// sandboxes are those that the configuration selects.
type sandboxes struct{ *Daemon }

func (d sandboxes) probe(ctx context.Context, e config.Environment) (r sandbox.Report) {
	if l, err := d.backend.find(e); err == nil { // else the daemon is closed
		r = l.Probe(ctx)
	}
	r.Backend = cmp.Or(r.Backend, e.Sandbox.Name) // one that does not start does not name itself
	return r
}

// SandboxReport is the report of a kind of sandbox that the settings of some tenants or rules select.
type SandboxReport struct {
	sandbox.Report
	By string `json:"selected_by"` // the first such setting
}

// ProbeOthers does the same as Probe for the other kinds of sandboxes in use.
func ProbeOthers(ctx context.Context, d *Daemon) (all []SandboxReport) {
	by := d.cfg.SandboxesInUse()
	delete(by, d.cfg.Sandbox())
	for _, e := range d.cfg.EnvironmentsInUse() {
		if by[e.Sandbox] != "" {
			all = append(all, SandboxReport{sandboxes{d}.probe(ctx, e), by[e.Sandbox]})
			delete(by, e.Sandbox)
		}
	}
	return all
}

// sandbox returns the name of a tenant's backend, and an error if it does not work.
func (d sandboxes) sandbox(ctx context.Context, id tenant.ID) (string, error) {
	e := d.data.settings(id).Environment()
	l, err := d.backend.find(e)
	if err == nil {
		_, err = l.wait(ctx)
	}
	return e.Sandbox.Name, err
}
