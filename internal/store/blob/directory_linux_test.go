package blob_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

// readOnlyDirectory returns a test with a directory that its user may not change: for root, in a thread of another user,
// which ends with its goroutine.
func readOnlyDirectory() func(testing.TB, func(blob.Bucket)) {
	return func(t testing.TB, use func(blob.Bucket)) {
		dir, err := os.MkdirTemp("", "bucket")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			chmod(t, dir, 0o700)
			os.RemoveAll(dir)
		})
		b, err := blob.Open(t.Context(), "file://"+dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Create(t.Context(), "kept", strings.NewReader("kept")); err != nil {
			t.Fatal(err)
		}
		chmod(t, dir, 0o555)
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
			use(b)
		}()
		<-done
	}
}

func chmod(t testing.TB, dir string, mode fs.FileMode) {
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Error(err)
	}
}
