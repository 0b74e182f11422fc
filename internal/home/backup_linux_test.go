package home_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// backup returns the entries of tenants.
func backup(t *testing.T, ts *home.Homes, ids ...tenant.ID) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, id := range ids {
		s := must(ts.Snapshot(t.Context(), id))(t)
		if _, err := s.Write(t.Context(), tw); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// entries calls add for each entry of an archive.
func entries(archive []byte) home.Entries {
	return func(add func(*tar.Header, io.Reader) error) error {
		tr := tar.NewReader(bytes.NewReader(archive))
		for {
			h, err := tr.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = add(h, tr)
			}
			if err != nil {
				return err
			}
		}
	}
}

// restore creates a data directory from an archive, with the master key of another.
func restore(t *testing.T, archive []byte, from string) string {
	t.Helper()
	root := newRoot(t)
	r := must(home.StartRestore(root, features))(t)
	if err := entries(archive)(r.Add); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Open(t.Context(), home.Config{Root: root}); fault.KindOf(err) != fault.Unavailable ||
		!strings.Contains(fault.Hint(err), "sandpiper restore FILE") {
		t.Errorf("a data directory that is being restored was opened: %v", err)
	}
	if _, err := home.StartRestore(root, features); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("two restores at once: %v", err)
	}
	if err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := must(os.ReadFile(filepath.Join(from, "key")))(t)
	if err := os.WriteFile(filepath.Join(root, "key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// expectIntact runs SQLite's complete check of a database.
func expectIntact(t *testing.T, path string) {
	t.Helper()
	if err := store.CheckIntegrity(t.Context(), path); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// Two tenants are backed up again and again while another Homes, as that of another process,
// writes their data. Each backup has what was acknowledged before it, and is consistent.
func TestBackupDuringWritesIsConsistent(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	a := acquire(t, ts, "customer_A")
	token, _ := fillTenant(t, a, root)
	t.Cleanup(func() { os.Chmod(filepath.Join(root, "workspaces", a.ID().Dir(), "closed"), 0o700) })
	b := acquire(t, ts, "b")
	write(t, b, "of b.txt", "b")

	var saved atomic.Int64
	var writing sync.WaitGroup
	stop := make(chan struct{})
	loop := func(f func(n int64) error) {
		writing.Go(func() {
			for n := int64(1); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(n); err != nil {
					t.Errorf("write %d: %v", n, err)
					return
				}
			}
		})
	}
	loop(func(n int64) error {
		_, err := a.Sessions.Append(t.Context(), "busy", session.Step{Code: fmt.Sprint(n), Result: strings.Repeat("x", 3000),
			Began: time.Now()})
		if err == nil {
			saved.Store(n)
		}
		return err
	})
	growing := filepath.Join(root, "workspaces", a.ID().Dir(), "growing")
	loop(func(n int64) error { // as code in a sandbox does
		return os.WriteFile(growing, bytes.Repeat([]byte("y"), int(n%7)*100_000), 0o600)
	})
	other := open(t, home.Config{Root: root, UIDs: -1})
	for range 8 {
		before := saved.Load()
		archive := backup(t, other, a.ID(), b.ID())
		restored := restore(t, archive, root)
		for _, id := range []tenant.ID{a.ID(), b.ID()} {
			expectIntact(t, filepath.Join(restored, "private", id.Dir(), "tenant.db"))
		}
		to := open(t, withVault(restored))
		h := acquire(t, to, "customer_A")
		t.Cleanup(func() { os.Chmod(filepath.Join(restored, "workspaces", h.ID().Dir(), "closed"), 0o700) })
		if before > 0 {
			s := must(h.Sessions.Find(t.Context(), "busy"))(t)
			if last, err := strconv.ParseInt(s.Tasks[len(s.Tasks)-1].Code, 10, 64); err != nil || last < before {
				t.Errorf("step %d is the last one, of at least %d", last, before)
			}
		}
		if values := must(h.Vault.Restore(t.Context(), "", []vault.Token{token}))(t); values[token].Text != "ada@example.com" {
			t.Errorf("the token is %+v", values)
		}
		if read(h, "data/report.csv") != "a,b\n1,2\n" || !strings.HasPrefix(read(h, "of b.txt"), "there is no") || read(acquire(t, to, "b"),
			"of b.txt") != "b" {
			t.Error("the files of the tenants differ")
		}
	}
	close(stop)
	writing.Wait()
	if left, _ := filepath.Glob(filepath.Join(root, ".new-*")); len(left) > 0 {
		t.Errorf("the backups left %q", left)
	}
}

// A killed restore is recognised, and the next one replaces what it created. A restore that fails
// leaves the directory as it was.
func TestInterruptedRestoreIsRepeated(t *testing.T) {
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	a := acquire(t, ts, "a")
	write(t, a, "f", "content")
	archive := backup(t, ts, a.ID())

	at := newRoot(t)
	r := must(home.StartRestore(at, features))(t)
	half := errors.New("half")
	if err := entries(archive)(func(h *tar.Header, c io.Reader) error {
		if strings.HasSuffix(h.Name, "/f") {
			return half
		}
		return r.Add(h, c)
	}); !errors.Is(err, half) {
		t.Fatal(err)
	}
	r.Kill()
	if _, err := home.Open(t.Context(), home.Config{Root: at}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("opened: %v", err)
	}
	r = must(home.StartRestore(at, features))(t)
	if err := entries(archive)(r.Add); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(acquire(t, open(t, home.Config{Root: at, UIDs: -1}), "a"), "f"); got != "content" {
		t.Errorf("the file is %q", got)
	}
	if _, err := home.StartRestore(at, features); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a used directory: %v", err)
	}

	failed := newRoot(t)
	if err := os.MkdirAll(failed, 0o700); err != nil {
		t.Fatal(err)
	}
	key := must(os.ReadFile(filepath.Join(root, "key")))(t)
	if err := os.WriteFile(filepath.Join(failed, "key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	r = must(home.StartRestore(failed, features))(t)
	if err := entries(archive)(r.Add); err != nil {
		t.Fatal(err)
	}
	if err := r.Abort(); err != nil {
		t.Fatal(err)
	}
	if left := must(os.ReadDir(failed))(t); len(left) != 1 || left[0].Name() != "key" {
		t.Errorf("it left %v", left)
	}
}

func TestRestoreRefusesHostileNames(t *testing.T) {
	t.Parallel()
	for _, h := range []tar.Header{
		{Name: "private/../key"}, {Name: "private/a/../../key"}, {Name: "private/a/use.lock"}, {Name: "private/a/logins/../../b"},
		{Name: "private/a/logins/"}, {Name: "private//tenant.db"},
		{Name: "workspaces/a/f"}, {Name: "workspaces/../x/", Typeflag: tar.TypeDir}, {Name: "workspaces/a", Typeflag: tar.TypeSymlink,
			Linkname: "/etc"},
		{Name: "../outside"}, {Name: "/outside"}, {Name: "private/a/tenant.db", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
	} {
		r := must(home.StartRestore(newRoot(t), features))(t)
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := r.Add(&h, strings.NewReader("")); err == nil {
			t.Errorf("%q was created", h.Name)
		}
		if err := r.Abort(); err != nil {
			t.Error(err)
		}
	}
}

// A tenant that was imported or restored, and whose home was not opened since, can be backed up and
// exported.
func TestUnusedTenantIsBackedUp(t *testing.T) {
	t.Parallel()
	from, root := machine(t, workspace.Quota{})
	a := acquire(t, from, "acme")
	write(t, a, "f", "content")
	a.Release(t.Context())
	restored := open(t, withVault(restore(t, backup(t, from, a.ID()), root)))
	imported, _ := machine(t, workspace.Quota{})
	must(imported.Import(t.Context(), bytes.NewReader(exported(t, from, a.ID())), tenant.ID{}))(t)
	for name, ts := range map[string]*home.Homes{"restored": restored, "imported": imported} {
		for _, archive := range [][]byte{backup(t, ts, a.ID()), exported(t, ts, a.ID())} {
			if !bytes.Contains(archive, []byte("content")) {
				t.Errorf("%s: the archive lacks the file", name)
			}
		}
	}
}

// A tenant with damaged files is listed with its error, and its Snapshot fails, so that nothing of it
// gets into a backup.
func TestDamagedTenantIsListedAndNotBackedUp(t *testing.T) {
	t.Parallel()
	for damage, name := range map[string]string{"tier": "tier", "suspended": "suspended", "database": "tenant.db", "logins": "logins",
		"workspace": "../../workspaces/a", "link": "../../workspaces/a", "uid": "uid"} {
		t.Run(damage, func(t *testing.T) {
			ts, root := machine(t, workspace.Quota{})
			for _, uid := range []string{"a", "b"} {
				acquire(t, ts, uid).Release(t.Context())
			}
			if err := ts.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(root, "private/a", name)
			err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700))
			switch {
			case damage == "logins" || damage == "workspace":
				err = errors.Join(err, os.WriteFile(path, []byte("no directory"), 0o600))
			case damage == "link":
				err = errors.Join(err, os.Symlink("/etc", path))
			default:
				err = errors.Join(err, os.Mkdir(path, 0o700))
			}
			if err != nil {
				t.Fatal(err)
			}
			ts = open(t, withVault(root))
			all := must(ts.List(t.Context()))(t)
			if len(all) != 2 || all[0].ID.String() != "a" || all[1].ID.String() != "b" {
				t.Errorf("%+v", all)
			}
			if (damage == "tier" || damage == "suspended") != (all[0].Error != "") || all[1].Error != "" {
				t.Errorf("%+v", all)
			}
			s, err := ts.Snapshot(t.Context(), id(t, "a"))
			if err == nil {
				s.Close()
				t.Error("it is in the backup")
			} else if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Exhausted {
				t.Error(kind, err)
			}
			backup(t, ts, id(t, "b"))
		})
	}
}

// A restore is not a use of a tenant, nor are checks and commands of the operator.
func TestRestoreKeepsTimeOfLastUse(t *testing.T) {
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	ctx, a := t.Context(), acquire(t, ts, "customer_A")
	id := a.ID()
	write(t, a, "f", "x")
	if err := a.Release(ctx); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(root, "private", id.Dir(), "use.lock")
	then := time.Now().Add(-100 * 24 * time.Hour).Truncate(time.Second)
	since := func(ts *home.Homes, what string, want time.Time) {
		t.Helper()
		if e, err := ts.Find(id); err != nil || !e.Used.Equal(want) {
			t.Errorf("%s: it was last used %v, not %v; %v", what, e.Used, want, err)
		}
	}
	if err := os.Chtimes(lock, then, then); err != nil {
		t.Fatal(err)
	}
	archive := backup(t, ts, id)
	since(ts, "after a backup", then)
	if failed, err := ts.Check(ctx, []tenant.ID{id}); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	since(ts, "after a check", then)
	h := must(ts.AcquireSuspended(ctx, id))(t)
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	since(ts, "after a command of the operator", then)

	since(open(t, withVault(restore(t, archive, root))), "after a restore of all tenants", then)
	later := then.Add(time.Hour)
	if err := errors.Join(ts.Suspend(id, ""), os.Chtimes(lock, later, later)); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Restore(ctx, id, false, entries(archive)); fault.Hint(err) != "replace its data with --replace" {
		t.Errorf("a suspended tenant: %v; %s", err, fault.Hint(err))
	}
	must(ts.Restore(ctx, id, true, entries(archive)))(t)
	since(ts, "after its data was replaced", later)
	if err := ts.Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	must(ts.Restore(ctx, id, false, entries(archive)))(t)
	since(ts, "after a restore of one tenant", then)
	h = must(ts.Acquire(ctx, id))(t)
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if e, err := ts.Find(id); err != nil || time.Since(e.Used) > time.Minute {
		t.Errorf("after a use it was last used %v, %v", e.Used, err)
	}
}

// A tenant is restored when it is gone, or replaced when it is suspended; others keep their data.
func TestOneTenantIsRestored(t *testing.T) {
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	a, b := acquire(t, ts, "customer_A"), acquire(t, ts, "b")
	token, asked := fillTenant(t, a, root)
	t.Cleanup(func() { os.Chmod(filepath.Join(root, "workspaces", a.ID().Dir(), "closed"), 0o700) })
	write(t, b, "f", "old")
	within(t, "the code is on disk", func() bool { _, err := a.Recent.Find(t.Context(), "exec_recent"); return err == nil })
	archive := backup(t, ts, a.ID(), b.ID())
	write(t, a, "later", "x")
	write(t, b, "f", "new")
	ctx, id := t.Context(), a.ID()
	if _, err := ts.Restore(ctx, id, false, entries(archive)); fault.KindOf(err) != fault.Invalid ||
		fault.Hint(err) != "suspend it with `sandpiper tenant suspend customer_A`, then replace its data with --replace" {
		t.Errorf("an existing tenant: %v; %s", err, fault.Hint(err))
	}
	if _, err := ts.Restore(ctx, id, true, entries(archive)); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err),
		"tenant suspend customer_A") {
		t.Errorf("an active tenant: %v", err)
	}
	if err := errors.Join(a.Release(ctx), ts.Suspend(id, "damaged")); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Restore(ctx, id, true, entries(archive[:len(archive)/2])); err == nil {
		t.Error("half an archive was restored")
	}
	if got := must(os.ReadFile(filepath.Join(root, "workspaces", id.Dir(), "later")))(t); string(got) != "x" {
		t.Error("a failed restore changed files")
	}
	if _, err := ts.Restore(ctx, id, true, entries(archive)); err != nil {
		t.Fatal(err)
	}
	if e := must(ts.Find(id))(t); e.Suspension == nil || e.Suspension.Reason != "damaged" || e.Suspension.Deleting {
		t.Errorf("the suspension is %+v", e.Suspension)
	}
	expect := func() {
		t.Helper()
		if err := ts.Activate(id); err != nil {
			t.Fatal(err)
		}
		h := must(ts.Acquire(ctx, id))(t)
		defer h.Release(ctx)
		checkImported(t, h, root, token, asked)
		if !strings.HasPrefix(read(h, "later"), "there is no") || read(b, "f") != "new" {
			t.Error("the files differ")
		}
	}
	expect()
	if err := ts.Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Restore(ctx, id, false, entries(archive)); err != nil {
		t.Fatal(err)
	}
	expect()
	none := must(tenant.Parse("nobody"))(t)
	if _, err := ts.Restore(ctx, none, false, entries(archive)); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a tenant that the backup does not have: %v", err)
	}
	if e, err := ts.Find(none); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it was created: %+v", e)
	}
}

// A replacement that was interrupted leaves the tenant unusable, and is repeated.
func TestInterruptedReplacementIsRepeated(t *testing.T) {
	t.Parallel()
	ts, root := machine(t, workspace.Quota{})
	a := acquire(t, ts, "a")
	write(t, a, "f", "content")
	ctx, id, archive := t.Context(), a.ID(), backup(t, ts, a.ID())
	if err := errors.Join(a.Release(ctx), ts.Suspend(id, "")); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(root, "private", "a")
	for _, err := range []error{ // what a killed process leaves
		os.WriteFile(filepath.Join(private, "suspended"), []byte(`{"deleting":true,"reason":"its restore was interrupted"}`), 0o600),
		os.Remove(filepath.Join(private, "tenant.db")), os.RemoveAll(filepath.Join(root, "workspaces", "a")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := ts.Activate(id); err == nil {
		t.Error("half a tenant was activated")
	}
	if _, err := ts.Restore(ctx, id, true, entries(archive)); err != nil {
		t.Fatal(err)
	}
	if err := ts.Activate(id); err != nil {
		t.Fatal(err)
	}
	if got := read(must(ts.Acquire(ctx, id))(t), "f"); got != "content" {
		t.Errorf("the file is %q", got)
	}
}

// Code that replaces its files by links, FIFOs and directories all the time neither stops a backup nor
// makes it impossible to restore, and no file outside of the workspace gets into it.
func TestBackupOfHostileWorkspaceIsRestorable(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	root, err := os.MkdirTemp("/dev/shm", "backup-") // where a name that is created again is listed again
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	ts := open(t, home.Config{Root: filepath.Join(root, "data"), UIDs: -1})
	a := acquire(t, ts, "a")
	dir := filepath.Join(root, "data", "workspaces", "a")
	stop := make(chan struct{})
	var attacking sync.WaitGroup
	for worker := range 3 {
		attacking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				path := filepath.Join(dir, fmt.Sprint("f", (n+worker)%200))
				_ = os.RemoveAll(path)
				switch n % 7 {
				case 0, 1:
					// it may be a FIFO of another one
					f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o600)
					if err == nil {
						_, _ = f.Write(bytes.Repeat([]byte("x"), n%5000))
						f.Close()
					}
				case 2:
					_ = os.Symlink(outside, path)
				case 3:
					_ = syscall.Mkfifo(path, 0o600)
				case 4:
					_ = os.MkdirAll(filepath.Join(path, "deep", "er"), 0o700)
				case 5:
					_ = os.Link(filepath.Join(dir, fmt.Sprint("f", n%100)), path)
				case 6:
					_ = os.Rename(filepath.Join(dir, fmt.Sprint("f", (n+50)%200)), path)
				}
			}
		})
	}
	for range 20 {
		archive := backup(t, ts, a.ID())
		if bytes.Contains(archive, []byte("of the host")) {
			t.Fatal("a file outside of the workspace is in the backup")
		}
		r := must(home.StartRestore(newRoot(t), features))(t)
		if err := entries(archive)(r.Add); err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	attacking.Wait()
}
