package reply

import (
	"cmp"
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// ExplainDisk states which disk is full and what uses the space. Exceeding a quota
// ends the execution or makes the workspace read-only; a "no space" error of the
// kernel refers to another file system.
func (r *Result) ExplainDisk(ctx context.Context, files *workspace.Files) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case r.Status == sandbox.OverLimit && r.Limit == sandbox.LimitDisk:
		r.setError(files.QuotaExceeded(ctx), "The execution was ended: ")
	case r.Status == sandbox.OverLimit && r.Limit == sandbox.LimitHostDisk:
		r.setError(files.NearlyFull(), "The execution was ended: ")
	case r.Status == sandbox.Raised && r.Limit == sandbox.LimitDisk:
		r.Limit = ""
		r.Hint = "the file system that was written to is full: /tmp and /dev/shm are small and count as memory; this is not the " +
			"workspace quota"
		if err := files.CheckReserve(0); err != nil {
			r.Limit = sandbox.LimitHostDisk
			r.setHint(err)
		}
	case r.Status == sandbox.Raised && strings.Contains(r.Error, readOnly):
		err := files.CheckQuota(ctx)
		if fault.KindOf(err) == fault.Exhausted {
			err = files.QuotaExceeded(ctx) // counts the refusal
		}
		r.setHint(err)
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
