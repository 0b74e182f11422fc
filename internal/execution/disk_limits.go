package execution

import (
	"cmp"
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// mounts are what code of home sees. A dry run changes nothing there, and
// neither does code in a workspace that is full: it deletes with delete_file.
func mounts(ctx context.Context, home *home.Home, dry bool) []sandbox.Mount {
	all := home.Mounts()
	readOnly := dry || home.Workspace.CheckQuota(ctx) != nil
	for i := range all {
		all[i].ReadOnly = all[i].ReadOnly || readOnly
	}
	return all
}

// TypeDisk is the Result.ErrorType of an execution that its quota ended, and
// TypeHostDisk of one that was ended since the machine's disk is nearly full.
const (
	TypeDisk     = sandbox.LimitDisk
	TypeHostDisk = sandbox.LimitHostDisk
)

// explainDisk says which disk is full, and what takes the space. Code meets a
// quota by being ended, or in a workspace that it cannot write; an error of the
// kernel says that another place is full.
func explainDisk(ctx context.Context, home *home.Home, r *Result) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case r.Status == sandbox.OverLimit && r.Limit == sandbox.LimitDisk:
		r.says(home.Workspace.QuotaExceeded(ctx), "The execution was ended: ")
	case r.Status == sandbox.OverLimit && r.Limit == sandbox.LimitHostDisk:
		r.says(home.Workspace.NearlyFull(), "The execution was ended: ")
	case r.Status == sandbox.Raised && r.Limit == sandbox.LimitDisk:
		r.Limit = ""
		r.Hint = "no space is left in the place that was written to: /tmp and /dev/shm are small and count as memory; this is not the workspace quota"
		if err := home.Workspace.CheckReserve(0); err != nil {
			r.Limit = sandbox.LimitHostDisk
			r.hint(err)
		}
	case r.Status == sandbox.Raised && strings.Contains(r.Error, readOnly):
		r.hint(home.Workspace.CheckQuota(ctx))
	}
}

// readOnly is what the kernel says of a file system that cannot be written.
const readOnly = "Read-only file system"

// says makes err the result's error.
func (r *Result) says(err error, before string) {
	if err != nil {
		r.Error, r.Hint = before+fault.Message(err), fault.Hint(err)
	}
}

// hint makes err the result's hint; nil leaves that as it is.
func (r *Result) hint(err error) {
	if err != nil {
		r.Hint = cmp.Or(strings.Join([]string{fault.Message(err), fault.Hint(err)}, "; "), r.Hint)
	}
}

// deleteFile deletes a file of the workspace for code that cannot, since the
// workspace is full and read-only.
func (h *host) deleteFile(ctx context.Context, name string) error {
	if h.dry != nil {
		return fault.New(fault.Denied, "a dry run deletes nothing")
	}
	return h.home.Workspace.Delete(ctx, name)
}
