package workspace_test

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func TestArchiveOfFileThatIsTruncated(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "growing")
	must(t, os.WriteFile(path, nil, 0o644))
	f := open(t, workspace.Config{Dir: dir})
	ctx, stop := context.WithCancel(t.Context())
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		content := make([]byte, 100_000)
		for ctx.Err() == nil {
			os.WriteFile(path, content, 0o644)
			os.Truncate(path, 0)
		}
	}()
	within(t, func() {
		for range 5000 {
			if _, err := f.Archive(t.Context(), tar.NewWriter(io.Discard), ""); err != nil {
				t.Fatal(err)
			}
		}
	})
	stop()
	<-wrote
}
