package session_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

func recorded(size int) session.Step {
	return session.Step{Code: "1", Record: bytes.Repeat([]byte(mail), size/len(mail)), Recorded: session.Complete}
}

// records returns the size of the record of each step of a session, and whether it is complete.
func (h *home) records(t *testing.T, id string) (all []string) {
	t.Helper()
	steps, err := h.Replay(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		r, err := h.Record(t.Context(), id, s.Number)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(len(r), " ", s.Recorded == session.Complete))
	}
	return all
}

func TestRecordIsStoredEncrypted(t *testing.T) {
	dir := t.TempDir()
	h := openHome(t, dir, session.Config{})
	h.append(t, "a", recorded(150))
	h.append(t, "a", session.Step{Code: "1", Recorded: session.Complete})
	h.append(t, "a", session.Step{Code: "1", Recorded: session.RecordTooLarge})
	h.append(t, "b", recorded(300))
	if got, want := h.records(t, "a"), []string{"150 true", "0 true", "0 false"}; !cmp.Equal(got, want) {
		t.Errorf("records %q, want %q", got, want)
	}
	if found := clear(t, dir); found != nil {
		t.Errorf("%q contains the address in plaintext", found)
	}
}

func TestOldestRecordsAreDeleted(t *testing.T) {
	h := newHome(t, session.Config{RecordBytes: 4 << 20})
	h.append(t, "old", recorded(300<<10))
	for range 5 {
		h.append(t, "a", recorded(300<<10))
	}
	full, deleted := fmt.Sprint(300<<10, " true"), "0 false"
	if got, want := h.records(t, "a"), []string{deleted, deleted, deleted, full, full}; !cmp.Equal(got[3:], want[3:]) || got[0] != deleted {
		t.Errorf("records of the session %q", got)
	}
	for i := range 14 {
		h.append(t, fmt.Sprint("s", i), recorded(300<<10))
	}
	if got := h.records(t, "old"); got[0] != deleted {
		t.Errorf("the record of the least recently used session is left: %q", got)
	}
	if got := h.records(t, "s13"); got[0] != full {
		t.Errorf("the record of the latest session is %q", got)
	}
	if s := h.find(t, "old"); len(s.Tasks) != 1 {
		t.Errorf("the session has %d tasks", len(s.Tasks))
	}
}

func TestRekeyEncryptsRecords(t *testing.T) {
	dir := t.TempDir()
	h := openHome(t, dir, session.Config{})
	h.append(t, "a", recorded(150))
	db, err := store.Open(t.Context(), filepath.Join(dir, "tenant.db"), []store.Migration{{Number: 1, SQL: session.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := session.New(session.Config{DB: db, Projection: h.dir, Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Record(t.Context(), "a", 1); err == nil {
		t.Error("another key reads the record")
	}
	if damaged, err := h.Rekey(t.Context(), other); damaged != 0 || err != nil {
		t.Fatal(damaged, err)
	}
	if r, err := other.Record(t.Context(), "a", 1); err != nil || len(r) != 150 {
		t.Errorf("after Rekey: %d bytes, %v", len(r), err)
	}
}
