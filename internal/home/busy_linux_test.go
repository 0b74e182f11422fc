package home_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// A home that does not open in time is not damaged: its error suggests nothing that would replace data.
func TestSlowHomeIsNotDamaged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root assigns uids, for which a lock is needed")
	}
	root := newRoot(t)
	if err := open(t, home.Config{Root: root}).Close(); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(filepath.Join(root, "uids.lock"))
	if ok, err := lock.TryLock(); !ok {
		t.Fatal(err)
	}
	defer lock.Close()
	synctest.Test(t, func(t *testing.T) {
		ts, err := home.Open(t.Context(), withUIDs(home.Config{Root: root}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ts.Acquire(t.Context(), id(t, "a"))
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "within 30s") ||
			strings.Contains(fault.Hint(err), "restore") {
			t.Errorf("%v; %s", err, fault.Hint(err))
		}
		if err := ts.Close(); err != nil {
			t.Error(err)
		}
	})
}
