package vault_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// many returns values of different lengths.
func many(n int) (values []vault.Value) {
	for i := range n {
		values = append(values, email(fmt.Sprintf("%s%d@example.com", strings.Repeat("x", i%700), i)))
	}
	return values
}

// column returns the first column of a query as text.
func column(t testing.TB, db *store.DB, query string) (all []string) {
	t.Helper()
	err := db.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.QueryContext(t.Context(), query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err
			}
			all = append(all, s)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRotateReencryptsRecords(t *testing.T) {
	p := newTestDir(t)
	v, beside, b := p.open(t, "a"), p.open(t, "a"), p.open(t, "b")
	values := many(1200)
	tokens := tokenize(t, v, "s", values...)
	tokenize(t, b, "s", values[0])
	restores(t, beside, "s", tokens[0])
	db := p.db(t, "a")
	before := column(t, db, "SELECT hex(encrypted) FROM vault_records")
	keysBefore := column(t, db, "SELECT hex(wrapped) FROM vault_keys WHERE use = 'data'")
	if err := v.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, after := range column(t, db, "SELECT hex(encrypted) FROM vault_records") {
		if after == before[i] {
			t.Fatalf("record %d was not re-encrypted", i)
		}
	}
	if keys := column(t, db, "SELECT hex(wrapped) FROM vault_keys WHERE use = 'data'"); len(keys) != 1 || keys[0] == keysBefore[0] {
		t.Errorf("there are %d data keys", len(keys))
	}
	for name, v := range map[string]*vault.Vault{"the same": v, "one that was open": beside, "another process": p.open(t, "a")} {
		if got := restores(t, v, "s", tokens...); len(got) != len(values) || got[tokens[7]] != values[7] {
			t.Errorf("%s: restored %d of %d values", name, len(got), len(values))
		}
		token := tokenize(t, v, "s", email(strings.ReplaceAll(name, " ", ".")+"@example.com"))
		if got := restores(t, p.open(t, "a"), "s", token...); len(got) != 1 {
			t.Errorf("%s: value added after the rotation is lost", name)
		}
	}
	if diff := cmp.Diff(tokens, tokenize(t, p.open(t, "a"), "s", values...)); diff != "" {
		t.Error(diff)
	}
}

func TestRotateEmptyVault(t *testing.T) {
	p := newTestDir(t)
	if err := p.open(t, "a").Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "key")); err == nil {
		t.Error("a master key was created")
	}
}

func TestRotateDuringUse(t *testing.T) {
	p := newTestDir(t)
	silent := func(c *vault.Config) { c.Log = nil }
	values := many(300)
	tokens := tokenize(t, p.open(t, "a", silent), "", values...)
	vaults := []*vault.Vault{p.open(t, "a", silent), p.open(t, "a", silent), p.open(t, "a", silent)}
	var work, rotations sync.WaitGroup
	rotated := make(chan struct{})
	for i, v := range vaults[:2] {
		rotations.Go(func() {
			for range 3 {
				if err := v.Rotate(t.Context()); err != nil && fault.KindOf(err) != fault.Unavailable { // the other rotation won
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	work.Go(func() {
		after := int64(0)
		for i := 0; !closed(rotated); i++ {
			value := email(fmt.Sprintf("new%d@example.com", i))
			if _, err := vaults[2].Tokenize(t.Context(), "", []vault.Value{value}); fault.KindOf(err) == fault.Unavailable {
				continue // the database was busy
			} else if err != nil {
				t.Error(err)
				return
			}
			var last vault.Value
			var err error
			after, err = vaults[2].Each(t.Context(), after, func(each vault.Value) { last = each })
			if err != nil || last != value {
				t.Errorf("the last value is %q, want %q; %v", last.Text, value.Text, err)
				return
			}
		}
	})
	rotations.Wait()
	close(rotated)
	work.Wait()
	if got := restores(t, p.open(t, "a"), "", tokens...); len(got) != len(tokens) {
		t.Errorf("restored %d of %d values", len(got), len(tokens))
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestRewrap(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a")
	value := email("ada@example.com")
	token := tokenize(t, v, "", value)[0]
	tokenize(t, p.open(t, "b"), "", value)
	to, err := vault.OpenMaster(t.Context(), "file:"+filepath.Join(p.dir, "other", "key"), p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Rewrap(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	other := func(c *vault.Config) { c.Master = to }
	for name, v := range map[string]*vault.Vault{"the same": v, "another process": p.open(t, "a", other)} {
		if again := tokenize(t, v, "", value)[0]; again != token || restores(t, v, "", token)[token] != value {
			t.Errorf("%s: %s, and before %s", name, again, token)
		}
		if err := v.Rotate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for what, err := range uses(t.Context(), p.open(t, "a"), token) {
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "master key") {
			t.Errorf("%s with the first master: %v", what, err)
		}
	}
	if got := tokenize(t, p.open(t, "b"), "", value); len(restores(t, p.open(t, "b"), "", got...)) != 1 {
		t.Error("keys of another tenant were rewrapped")
	}
}

func TestShredErasesEverything(t *testing.T) {
	p := newTestDir(t)
	v, beside, b := p.open(t, "a"), p.open(t, "a"), p.open(t, "b")
	values := many(1500)
	tokens := tokenize(t, v, "s", values...)
	theirs := tokenize(t, b, "s", values...)
	restores(t, beside, "s", tokens...)
	db := p.db(t, "a")
	secrets := column(t, db, "SELECT wrapped FROM vault_keys UNION ALL SELECT encrypted FROM vault_records")
	secrets = append(secrets, column(t, db, "SELECT mark FROM vault_records")...)
	if left := p.leftOf(t, "a", secrets); left == 0 {
		t.Fatal("leftOf does not find the records before Shred")
	}
	if err := v.Shred(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := p.leftOf(t, "a", secrets); left != 0 {
		t.Errorf("%d of %d keys and records are left in the file or its log", left, len(secrets))
	}
	p.now = p.now.Add(1e9) // other processes notice after a second
	for name, v := range map[string]*vault.Vault{"the same": v, "one that was open": beside, "another process": p.open(t, "a")} {
		if got := restores(t, v, "", tokens...); len(got) != 0 {
			t.Errorf("%s still restores %d values", name, len(got))
		}
		again := tokenize(t, v, "s", values[0])
		if again[0] == tokens[0] || restores(t, v, "s", again...)[again[0]] != values[0] {
			t.Errorf("%s: the new token is %s, the old one %s", name, again[0], tokens[0])
		}
	}
	if got := restores(t, b, "s", theirs...); len(got) != len(values) {
		t.Errorf("another tenant restores %d values", len(got))
	}
}

// leftOf counts the byte strings that the files of a tenant's database hold.
func (p *testDir) leftOf(t testing.TB, name string, all []string) (left int) {
	t.Helper()
	files, err := filepath.Glob(p.file(name) + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var content []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, b...)
	}
	for _, s := range all {
		if bytes.Contains(content, []byte(s[:16])) || bytes.Contains(content, []byte(s[len(s)-16:])) {
			left++
		}
	}
	return left
}

func TestShredWithoutKeys(t *testing.T) {
	p := newTestDir(t)
	tokenize(t, p.open(t, "a"), "", email("ada@example.com"))
	change(t, p.db(t, "a"), "DELETE FROM vault_keys WHERE use = 'data'")
	v := p.open(t, "a")
	for what, err := range uses(t.Context(), v, "[EMAIL_0000000000000000]") {
		if fault.Message(err) != "the vault keys are missing from the database" || fault.Hint(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := v.Shred(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tokenize(t, v, "", email("ada@example.com")); len(restores(t, p.open(t, "a"), "", got...)) != 1 {
		t.Error("the new vault does not work")
	}
}

func TestOpenMasterRejectsInvalid(t *testing.T) {
	for _, text := range []string{"files", "file:", "keyring:", "keyring:x", "keyring:/x", "keyring:x/", "keyring:x/y}${HOME",
		"aws-kms://x", "command", "FILE"} {
		m, err := vault.OpenMaster(t.Context(), text, t.TempDir())
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
}
