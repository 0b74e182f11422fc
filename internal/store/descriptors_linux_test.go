package store_test

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// exhaust leaves this process no descriptor to open, until release.
func exhaust(t *testing.T) (release func()) {
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

func TestAShortageOfDescriptorsPasses(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	if err := later(t, db, "before"); err != nil {
		t.Fatal(err)
	}
	release := exhaust(t)
	// For as long as some syncs: the connection that is open goes on.
	for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; {
		if err := later(t, db, "during"); err != nil {
			t.Fatalf("without descriptors: %v", err)
		}
	}
	release()
	for range 3 {
		if err := later(t, db, "after"); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestATransactionWaitsForDescriptors(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "t.db"), first)
	err := db.View(t.Context(), func(*store.Tx) error { // which has the connection that is open
		release := exhaust(t)
		defer time.AfterFunc(200*time.Millisecond, release).Stop()
		defer release()
		return exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('waited')")
	})
	if err != nil {
		t.Error(err)
	}
}

func TestALastingShortageOfDescriptorsIsNamed(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "t.db"), first)
	err := db.View(t.Context(), func(*store.Tx) error {
		release := exhaust(t)
		defer release()
		return exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('never')")
	})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "too many open files") || !strings.Contains(fault.Hint(err), "ulimit -n") {
		t.Errorf("%v: %s; %s", err, fault.Message(err), fault.Hint(err))
	}
	release := exhaust(t)
	_, err = store.Open(t.Context(), filepath.Join(dir, "new.db"), []store.Migration{first})
	release()
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "too many open files") {
		t.Errorf("a new database: %s", fault.Message(err))
	}
	if err := exec(t.Context(), db, "INSERT INTO notes (text) VALUES ('again')"); err != nil {
		t.Errorf("after the shortage: %v", err)
	}
}
