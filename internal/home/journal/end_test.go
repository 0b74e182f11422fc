package journal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// An end that could not be recorded is retried until it is. Before that, the execution cannot be
// resumed.
func TestEndIsRetriedAfterError(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	write(t, r, ask("put", `1`), `1`)
	whileUnwritable(t, d, func() {
		if err := r.End(t.Context(), journal.End{}); err == nil {
			t.Fatal("an end without a directory was recorded")
		}
	})
	_, _, err := d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false })
	for fault.KindOf(err) == fault.Unavailable { // until the end is recorded
		runtime.Gosched()
		_, _, err = d.OpenRecord(t.Context(), "exec_1", func([]byte) bool { return false })
	}
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("the finished execution is resumed: %v", err)
	}
	if err := d.Log.Close(); err != nil {
		t.Error(err)
	}
}

// whileUnwritable runs f while the directory of d is missing, and with it its log of calls.
func whileUnwritable(t *testing.T, d daemon, f func()) {
	t.Helper()
	dir := filepath.Dir(d.path)
	if err := errors.Join(journal.Trim(t.Context(), d.Log), os.Rename(dir, dir+"-away")); err != nil {
		t.Fatal(err)
	}
	f()
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
}

func TestCloseRecordsPendingEnds(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	r := d.NewRecord("exec_1", nothing, false)
	write(t, r, ask("put", `1`), `1`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.End(ctx, journal.End{}); err == nil {
		t.Fatal("an end was recorded after its context had ended")
	}
	if err := d.Log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Process.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := start(t, dir).ListUnfinished(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v are left, %v", all, err)
	}
}

// A failed registration of a process, or of its key, is retried.
func TestProcessRegistrationIsRetried(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "t.db"), []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	short := true
	p := journal.NewProcess(filepath.Join(dir, "processes"), func() ([]byte, error) {
		if short {
			return nil, errors.New("too many open files")
		}
		return bytes.Repeat([]byte{7}, 32), nil
	})
	defer p.Close()
	l := journal.New(journal.Config{DB: db, Tenant: tenant.Local, Process: p})
	defer l.Close()
	r := l.NewRecord("exec_1", nothing, false)
	a := ask("put", `1`)
	c := next(t, r, a)
	call := tool.Call{Ref: a.Ref, Execution: "exec_1", Args: a.Args, Number: c.Number}
	if err := r.Begin(t.Context(), call); err == nil {
		t.Fatal("a call began without a key")
	}
	short = false
	if err := r.Begin(t.Context(), call); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}
