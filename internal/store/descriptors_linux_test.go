package store_test

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// exhaustDescriptors prevents this process from opening file descriptors until release.
func exhaustDescriptors(t *testing.T) (release func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}

func TestOpenConnectionWorksWithoutDescriptors(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	if err := insertDeferred(t, db, "before"); err != nil {
		t.Fatal(err)
	}
	release := exhaustDescriptors(t)
	// Longer than several syncs: the open connection continues to work.
	for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; {
		if err := insertDeferred(t, db, "during"); err != nil {
			t.Fatalf("without descriptors: %v", err)
		}
	}
	release()
	for range 3 {
		if err := insertDeferred(t, db, "after"); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestUpdateWaitsForDescriptors(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	err := db.View(t.Context(), func(*store.Tx) error { // View uses the open connection
		release := exhaustDescriptors(t)
		defer time.AfterFunc(200*time.Millisecond, release).Stop()
		defer release()
		return exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('waited')")
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLongDescriptorShortageIsReported(t *testing.T) {
	longtest.SkipSlow(t)
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "t.db"), first)
	err := db.View(t.Context(), func(*store.Tx) error {
		release := exhaustDescriptors(t)
		defer release()
		return exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('never')")
	})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "too many open files") ||
		!strings.Contains(fault.Hint(err), "ulimit -n") {
		t.Errorf("%v: %s; %s", err, fault.Message(err), fault.Hint(err))
	}
	release := exhaustDescriptors(t)
	_, err = store.Open(t.Context(), filepath.Join(dir, "new.db"), []store.Migration{first})
	release()
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "too many open files") {
		t.Errorf("a new database: %s", fault.Message(err))
	}
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('again')"); err != nil {
		t.Errorf("after the shortage: %v", err)
	}
}
