// Package files serves the host calls about files of the workspace: code whose workspace is full, and
// therefore read-only, frees space with them. It reads and writes no other files.
package files

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

type truncateArgs struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Methods returns the host calls of an execution. A dry run changes no files.
func Methods(files *workspace.Files, dryRun bool) []hostcall.Method {
	return []hostcall.Method{
		hostcall.New("delete_file", 0, func(ctx context.Context, a hostcall.Name) (any, error) {
			if dryRun {
				return nil, fault.New(fault.Denied, "a dry run cannot delete files")
			}
			return nil, files.Delete(ctx, a.Name)
		}),
		hostcall.New("truncate_file", 0, func(ctx context.Context, a truncateArgs) (any, error) {
			if dryRun {
				return nil, fault.New(fault.Denied, "a dry run cannot truncate files")
			}
			return nil, workspace.Truncate(ctx, files, a.Name, a.Size)
		}),
	}
}
