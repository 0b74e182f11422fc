package execution

import (
	"cmp"
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// mounts returns the directories that code of home sees. They are read-only for a dry
// run, and while the workspace is full: the code can then only call delete_file.
func mounts(ctx context.Context, home *home.Home, dry bool) []sandbox.Mount {
	all := home.Mounts()
	readOnly := dry || home.Workspace.CheckQuota(ctx) != nil
	for i := range all {
		all[i].ReadOnly = all[i].ReadOnly || readOnly
	}
	return all
}

// explainDisk states which disk is full and what uses the space. Exceeding a quota
// ends the execution or makes the workspace read-only; a "no space" error of the
// kernel refers to another file system.
func explainDisk(ctx context.Context, home *home.Home, r *Result) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case r.Status == sandbox.OverLimit && r.Limit == sandbox.LimitDisk:
		r.setError(home.Workspace.QuotaExceeded(ctx), "The execution was ended: ")
	case r.Status == sandbox.OverLimit && r.Limit == sandbox.LimitHostDisk:
		r.setError(home.Workspace.NearlyFull(), "The execution was ended: ")
	case r.Status == sandbox.Raised && r.Limit == sandbox.LimitDisk:
		r.Limit = ""
		r.Hint = "the file system that was written to is full: /tmp and /dev/shm are small and count as memory; this is not the workspace quota"
		if err := home.Workspace.CheckReserve(0); err != nil {
			r.Limit = sandbox.LimitHostDisk
			r.setHint(err)
		}
	case r.Status == sandbox.Raised && strings.Contains(r.Error, readOnly):
		r.setHint(home.Workspace.CheckQuota(ctx))
	}
}

// readOnly is the kernel's message for a write to a read-only file system.
const readOnly = "Read-only file system"

// setError sets the result's error and hint from err; nil changes nothing.
func (r *Result) setError(err error, before string) {
	if err != nil {
		r.Error, r.Hint = before+fault.Message(err), fault.Hint(err)
	}
}

// setHint sets the result's hint from err; nil changes nothing.
func (r *Result) setHint(err error) {
	if err != nil {
		r.Hint = cmp.Or(strings.Join([]string{fault.Message(err), fault.Hint(err)}, "; "), r.Hint)
	}
}

// deleteFile deletes a workspace file for code whose workspace is full and therefore
// read-only.
func (h *host) deleteFile(ctx context.Context, name string) error {
	if h.dry != nil {
		return fault.New(fault.Denied, "a dry run cannot delete files")
	}
	return h.home.Workspace.Delete(ctx, name)
}
