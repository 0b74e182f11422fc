package home_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// limitDescriptors limits the descriptors of this process to n more than are open.
func limitDescriptors(t *testing.T, n int) {
	t.Helper()
	var was syscall.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err := errors.Join(err, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(len(open) + n), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// Unused homes do not take the descriptors that others need, of more tenants than fit.
func TestUnusedHomesAreClosedIfDescriptorsAreShort(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	limitDescriptors(t, 100)
	for i := range 40 {
		h, err := ts.Acquire(t.Context(), id(t, fmt.Sprint("tenant", i)))
		if err != nil {
			t.Fatalf("the home of tenant %d: %v", i, err)
		}
		if err := errors.Join(h.Workspace.Write(t.Context(), "a.txt", []byte("a")), h.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	ts.Watch(func(tenant.ID) {})
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	short := int(limit.Cur) / 4 * 3
	for range short + 5 - openDescriptors(t) { // other parts of the process
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	for end := time.Now().Add(time.Minute); openDescriptors(t) >= short; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are open, and %d are three quarters", openDescriptors(t), short)
		}
	}
}

// Without a limit on the number of unused homes that stay open, these take a quarter of the descriptors.
func TestUnusedHomesTakeAQuarterOfTheDescriptors(t *testing.T) {
	limitDescriptors(t, 400)
	ts := open(t, home.Config{Root: newRoot(t)})
	before := openDescriptors(t)
	for i := range 40 {
		if err := acquire(t, ts, fmt.Sprint("tenant", i)).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n, most := openDescriptors(t)-before, int(limit.Cur)/4; n > most || n < most/2 {
		t.Errorf("unused homes have %d descriptors of %d", n, limit.Cur)
	}
}

// An unused home has four descriptors: the database, its log, the index of that, and the lock. After a
// time only the lock remains.
func TestUnusedHomesHaveFourDescriptors(t *testing.T) {
	ts := open(t, home.Config{Root: newRoot(t)})
	before := openDescriptors(t)
	for i := range 64 {
		h := acquire(t, ts, fmt.Sprint("tenant", i))
		if err := errors.Join(h.Workspace.Write(t.Context(), "a.txt", []byte("a")), h.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]int{}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			kinds[filepath.Base(to)]++
		}
	}
	if n := openDescriptors(t) - before; n > 64*4 || kinds["tenant.db"] != 64 {
		t.Errorf("64 homes have %d descriptors: %v", n, kinds)
	}
	for end := time.Now().Add(time.Minute); openDescriptors(t)-before > 64; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("64 homes that are unused for longer have %d descriptors", openDescriptors(t)-before)
		}
		home.TrimUnused(ts) // again, because checkpoints may run
	}
	for i := range 64 {
		if h := acquire(t, ts, fmt.Sprint("tenant", i)); read(h, "a.txt") != "a" {
			t.Errorf("tenant %d reads %q", i, read(h, "a.txt"))
		}
	}
}

// A data directory that cannot be listed is not said to be another kind of directory.
func TestOpenReportsShortageOfDescriptors(t *testing.T) {
	root := newRoot(t)
	if err := open(t, home.Config{Root: root}).Close(); err != nil {
		t.Fatal(err)
	}
	limitDescriptors(t, -openDescriptors(t))
	if _, err := home.Open(t.Context(), home.Config{Root: root}); fault.KindOf(err) != fault.Unavailable ||
		!strings.Contains(fault.Message(err), "too many open files") {
		t.Errorf("%v", err)
	}
}
