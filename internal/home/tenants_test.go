package home_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func listed(t *testing.T, ts *home.Homes) (uids []string) {
	t.Helper()
	all, err := ts.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		uids = append(uids, e.ID.String())
	}
	return uids
}

func TestSimilarTenantsAreListedAndIsolated(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	uids := []string{"customer_a", "customer_A", "ada@example.org", "客户", "\u00c5", "\u212b"}
	for _, uid := range uids {
		h := acquire(t, ts, uid)
		if l, err := h.Workspace.List(t.Context(), "."); err != nil || len(l.Files) != 0 {
			t.Errorf("%s has files %v, %v", uid, l.Files, err)
		}
		write(t, h, "file", "of "+uid)
	}
	slices.Sort(uids)
	if got := listed(t, open(t, home.Config{Root: root})); !slices.Equal(got, uids) {
		t.Errorf("listed %q, want %q", got, uids)
	}
	again := open(t, home.Config{Root: root})
	for _, uid := range uids {
		if got := read(acquire(t, again, uid), "file"); got != "of "+uid {
			t.Errorf("%s reads %q", uid, got)
		}
	}
}

func TestAcquireRefusesDirectoryOfAnotherTenant(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	acquire(t, ts, "customer_A").Release(t.Context())
	ts.Close()
	file := filepath.Join(root, "private", id(t, "customer_A").Dir(), "uid")
	if err := os.WriteFile(file, []byte("customer_B"), 0o600); err != nil {
		t.Fatal(err)
	}
	ts = open(t, home.Config{Root: root})
	if _, err := ts.Acquire(t.Context(), id(t, "customer_A")); fault.KindOf(err) != fault.Internal {
		t.Errorf("acquired: %v", err)
	}
	if all, err := ts.List(t.Context()); err != nil || len(all) != 1 || !all[0].ID.IsZero() || !strings.Contains(all[0].Error,
		filepath.Base(filepath.Dir(file))) {
		t.Errorf("listed %+v", all)
	}
}

func TestSuspendedTenantIsRefusedInAllProcesses(t *testing.T) {
	root := newRoot(t)
	ts, other := open(t, home.Config{Root: root}), open(t, home.Config{Root: root})
	var mu sync.Mutex
	var ended []tenant.ID
	other.Watch(func(id tenant.ID) {
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, id)
	})
	if err := ts.Suspend(id(t, "a"), ""); fault.KindOf(err) != fault.NotFound {
		t.Errorf("suspended a tenant without data: %v", err)
	}
	write(t, acquire(t, ts, "a"), "file", "content")
	used := acquire(t, other, "a")
	acquire(t, other, "b")
	if err := errors.Join(ts.Suspend(id(t, "a"), "unpaid"), ts.Suspend(id(t, "a"), "still unpaid")); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*home.Homes{ts, other} {
		_, err := h.Acquire(t.Context(), id(t, "a"))
		if fault.KindOf(err) != fault.Denied || strings.Contains(err.Error()+fault.Hint(err), "unpaid") {
			t.Errorf("acquired a suspended tenant: %v", err)
		}
	}
	h, err := other.AcquireSuspended(t.Context(), id(t, "a"))
	if err != nil || read(h, "file") != "content" {
		t.Fatalf("the operator reads %q, %v", read(h, "file"), err)
	}
	h.Release(t.Context())
	within(t, "the end of its executions is requested", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(ended, []tenant.ID{id(t, "a")})
	})
	used.Release(t.Context())
	if failed, err := other.Check(t.Context(), []tenant.ID{id(t, "a")}); err != nil || len(failed) > 0 {
		t.Errorf("a suspended tenant fails the check: %v %v", failed, err)
	}
	if e, err := ts.Find(id(t, "a")); err != nil || e.Suspension == nil || e.Suspension.Reason != "still unpaid" {
		t.Errorf("entry %+v, %v", e, err)
	}
	if err := errors.Join(other.Activate(id(t, "a")), other.Activate(id(t, "a"))); err != nil {
		t.Fatal(err)
	}
	if got := read(acquire(t, ts, "a"), "file"); got != "content" {
		t.Errorf("after the suspension it reads %q", got)
	}
}

// Executions that began before the configuration was loaded again end too, and those of a process that suspends a tenant
// itself.
func TestSuspensionEndsUsesOfRetiredHomes(t *testing.T) {
	root := newRoot(t)
	for _, own := range []bool{true, false} {
		ts, other := open(t, home.Config{Root: root}), open(t, home.Config{Root: root})
		ended := make(chan tenant.ID, 10)
		ts.Watch(func(id tenant.ID) { ended <- id })
		name := map[bool]string{true: "a", false: "b"}[own]
		used := acquire(t, ts, name)
		if own {
			other = ts
		} else if err := ts.Reopen(); err != nil {
			t.Fatal(err)
		}
		if err := other.Suspend(id(t, name), ""); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-ended:
			if got != id(t, name) {
				t.Errorf("the end of %s was requested", got)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("the end of its executions is not requested: %t", own)
		}
		used.Release(t.Context())
	}
}

func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestDeleteRemovesEverythingOfTenant(t *testing.T) {
	root := newRoot(t)
	ts, other := open(t, home.Config{Root: root}), open(t, home.Config{Root: root})
	other.Watch(func(tenant.ID) {})
	for _, uid := range []string{"customer_A", "b"} {
		h := acquire(t, other, uid)
		write(t, h, "dir/file", "content")
		save(t, h, "x", "x = 1")
		h.Release(t.Context())
	}
	dir := filepath.Join(root, "workspaces", id(t, "customer_A").Dir(), "dir")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := ts.Delete(t.Context(), id(t, "customer_A")); err != nil { // other has an unused open home
		t.Fatal(err)
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if strings.Contains(path, id(t, "customer_A").Dir()) || strings.Contains(path, "deleted") {
			t.Errorf("%s remains", path)
		}
		return err
	})
	if err := ts.Delete(t.Context(), id(t, "customer_A")); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted again: %v", err)
	}
	if got := listed(t, ts); !slices.Equal(got, []string{"b"}) {
		t.Errorf("listed %q", got)
	}
	for _, h := range []*home.Homes{ts, other} { // a new tenant of this name has nothing of the old one
		h := acquire(t, h, "customer_A")
		if l, err := h.Skills.List(t.Context()); err != nil || len(l) != 0 || !strings.Contains(read(h, "dir/file"), "there is no") {
			t.Errorf("the new tenant has skills %v, %v, and reads %q", l, err, read(h, "dir/file"))
		}
	}
}

func TestDeleteWaitsForUses(t *testing.T) {
	root := newRoot(t)
	ts, other := open(t, home.Config{Root: root}), open(t, home.Config{Root: root})
	h := acquire(t, other, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := ts.Delete(ctx, id(t, "a")); err == nil {
		t.Fatal("deleted a tenant in use")
	}
	write(t, h, "file", "content") // its data is complete until then
	if _, err := ts.AcquireSuspended(t.Context(), id(t, "a")); err != nil {
		t.Errorf("the operator cannot read it: %v", err)
	}
	if err := ts.Activate(id(t, "a")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("activated during the deletion: %v", err)
	}
	if err := ts.Suspend(id(t, "a"), ""); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("suspended during the deletion: %v", err)
	}
}

func TestInterruptedDeletionContinues(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	h := acquire(t, ts, "a")
	write(t, h, "file", "content")
	h.Release(t.Context())
	ts.Close()
	// As if the process had been killed: one after it removed the workspace, one while it removed private data.
	left := filepath.Join(root, ".new-deleted-1", "private")
	err := errors.Join(os.RemoveAll(filepath.Join(root, "workspaces", "a")), os.MkdirAll(left, 0o700),
		os.WriteFile(filepath.Join(root, "private", "a", "suspended"), []byte(`{"deleting":true}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	ts = open(t, home.Config{Root: root})
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s remains: %v", left, err)
	}
	if _, err := ts.Acquire(t.Context(), id(t, "a")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("acquired: %v", err)
	}
	if err := ts.Delete(t.Context(), id(t, "a")); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, ts); len(got) != 0 {
		t.Errorf("listed %q", got)
	}
}

func TestDamagedSuspensionSuspends(t *testing.T) {
	root := newRoot(t)
	ts := open(t, home.Config{Root: root})
	acquire(t, ts, "a").Release(t.Context())
	if err := os.WriteFile(filepath.Join(root, "private", "a", "suspended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Acquire(t.Context(), id(t, "a")); fault.KindOf(err) != fault.Denied {
		t.Errorf("acquired: %v", err)
	}
	if err := ts.Activate(id(t, "a")); err != nil {
		t.Error(err)
	}
	acquire(t, ts, "a")
}
