package home_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func TestAcquireDeletesOldStagingFiles(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	h := acquire(t, ts, "local")
	dir := filepath.Join(root, "private", "local", "staging")
	for name, age := range map[string]time.Duration{"old": time.Hour, "fresh": 0} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	h.Release(t.Context())
	ts.Close()
	acquire(t, open(t, home.Config{Root: root}), "local")
	if _, err := os.Stat(filepath.Join(dir, "old")); err == nil {
		t.Error("an old staging file was not deleted")
	}
	if _, err := os.Stat(filepath.Join(dir, "fresh")); err != nil {
		t.Error("a staging file in use was deleted")
	}
}

func TestOpenDeletesOldIncompleteFiles(t *testing.T) {
	root := newRoot(t)
	if err := open(t, home.Config{Root: root}).Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Join(root, "private")} {
		for name, age := range map[string]time.Duration{".new-old": time.Hour, ".new-fresh": 0} {
			at := filepath.Join(dir, name)
			if err := os.WriteFile(at, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(at, time.Now(), time.Now().Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(t, home.Config{Root: root})
	for _, dir := range []string{root, filepath.Join(root, "private")} {
		_, old := os.Stat(filepath.Join(dir, ".new-old"))
		_, fresh := os.Stat(filepath.Join(dir, ".new-fresh"))
		if old == nil || fresh != nil {
			t.Errorf("%s: the old file %v, the fresh one %v", dir, old, fresh)
		}
	}
}
