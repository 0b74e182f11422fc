package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const mail = "ada@example.org"

// stepWithAddress returns a step with an address in each of its fields.
func stepWithAddress() session.Step {
	return session.Step{
		Description: "for " + mail, Code: "x = '" + mail + "'", Vars: json.RawMessage(`{"to":"` + mail + `"}`), Result: `"` + mail + `"`,
		Output: "printed " + mail, Files: []string{"/workspace/state/" + mail + ".json"}, Began: time.Now(),
	}
}

// clear returns the files below dir that contain the address.
func clear(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(mail)) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func token(_ context.Context, session, text string) (string, error) {
	return strings.ReplaceAll(text, mail, "[EMAIL_of_"+session+"]"), nil
}

func TestSessionIsEncryptedAtRest(t *testing.T) {
	dir := t.TempDir()
	h := openHome(t, dir, session.Config{Redact: token})
	s := stepWithAddress()
	h.append(t, "report", s)
	if _, err := h.Checkpoint(t.Context(), "report", 0, []byte(`"`+mail+`"`), []byte(`{"at":"`+mail+`"}`)); err != nil {
		t.Fatal(err)
	}
	if err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := clear(t, dir); found != nil {
		t.Errorf("%q contains the address in plaintext", found)
	}
	// the owner reads it unchanged
	got, err := h.Find(t.Context(), "report")
	if err != nil || got.Tasks[0].Code != s.Code || got.Tasks[0].Output != s.Output || string(got.Checkpoint.Step) != `"`+mail+`"` ||
		!cmp.Equal(got.StateFiles, s.Files) {
		t.Errorf("%+v %v", got, err)
	}
	steps, err := h.Replay(t.Context(), "report")
	if err != nil || string(steps[0].Vars) != string(s.Vars) {
		t.Errorf("%+v %v", steps, err)
	}
	// code reads tokens
	b, err := os.ReadFile(filepath.Join(h.dir, "report.json"))
	if err != nil || strings.Count(string(b), "[EMAIL_of_report]") != 7 || !json.Valid(b) {
		t.Errorf("%s %v", b, err)
	}
}

func TestLogRequiresKeyAndTenant(t *testing.T) {
	dir := t.TempDir()
	h := openHome(t, dir, session.Config{})
	h.append(t, "mine", stepWithAddress())
	h.append(t, "yours", stepWithAddress())
	db, err := store.Open(t.Context(), filepath.Join(dir, "tenant.db"), []store.Migration{{Number: 1, SQL: session.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := session.New(session.Config{DB: db, Projection: h.dir, Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Find(t.Context(), "mine"); fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err),
		"another key") {
		t.Errorf("with another key: %v", err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE session_tasks SET encrypted = (SELECT encrypted FROM session_tasks WHERE session = "+
			"'yours') WHERE session = 'mine'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Find(t.Context(), "mine"); fault.KindOf(err) != fault.Internal {
		t.Errorf("with another tenant: %v", err)
	}
	if _, err := session.New(session.Config{Key: []byte("short")}); err == nil {
		t.Error("a short key was accepted")
	}
}
