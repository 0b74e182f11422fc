package home

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// A process may be killed between its commit and its update of the projection. The next Acquire
// after refreshEvery updates the projection.
func TestAcquireRefreshesProjectionOfKilledProcess(t *testing.T) {
	root := t.TempDir()
	open := func() *Homes {
		all, err := Open(t.Context(), Config{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { all.Close() })
		return all
	}
	acquire := func(all *Homes) *Home {
		home, err := all.Acquire(t.Context(), tenant.Local)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { home.Release(t.Context()) })
		return home
	}
	ours, theirs := open(), open()
	acquire(ours)
	if _, err := acquire(theirs).Skills.Save(t.Context(), skill.Draft{Name: "late", Code: "x = 1"}); err != nil {
		t.Fatal(err)
	}
	shown := filepath.Join(ours.layout.of(tenant.Local).skillProjection, "late.py")
	if err := os.Remove(shown); err != nil {
		t.Fatal(err)
	}
	acquire(ours)
	ours.tasks.Wait()
	if _, err := os.Stat(shown); err == nil {
		t.Fatal("refreshed before it was due")
	}
	s := ours.homes[tenant.Local]
	s.refreshed = time.Now().Add(-refreshEvery)
	acquire(ours)
	ours.tasks.Wait()
	if _, err := os.Stat(shown); err != nil {
		t.Errorf("after a refresh: %v", err)
	}
	if s.users != 3 {
		t.Errorf("%d users are counted, there are 3", s.users)
	}
}
