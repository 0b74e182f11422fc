package workspace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

// A file that cannot be read to its end gets its length in an archive, so that the entries after it
// can be read.
func TestUnreadablePartIsZeros(t *testing.T) {
	mem, err := os.Open("/proc/self/mem") // address 0 cannot be read
	must(t, err)
	defer mem.Close()
	var b bytes.Buffer
	unread, err := workspace.CopySegment(&b, mem, 10_000)
	if unread == nil || err != nil || !bytes.Equal(b.Bytes(), make([]byte, 10_000)) {
		t.Errorf("%v, %v, %d bytes", unread, err, b.Len())
	}
}

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
