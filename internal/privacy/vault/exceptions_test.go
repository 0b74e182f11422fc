package vault_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

func TestExceptionsAreStoredWithoutTheValue(t *testing.T) {
	p := newTestDir(t)
	a, b := p.open(t, "a"), p.open(t, "b")
	const value = "Secret.Person@example.com"
	e, err := a.Exceptions.Allow(t.Context(), vault.Exception{Type: detect.Email, Tool: "ci.*"}, value)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.Exceptions.Allow(t.Context(), vault.Exception{Type: detect.Email, Tool: "ci.*"},
		" secret.person@EXAMPLE.com"); err != nil || again.ID != e.ID {
		t.Errorf("added again: %+v, %v", again, err)
	}
	all, err := a.Exceptions.List(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != e.ID || !all[0].ForValue || all[0].Tool != "ci.*" {
		t.Errorf("stored: %+v, %v", all, err)
	}
	if got := a.Exceptions.For("secret.person@example.com"); len(got) != 1 {
		t.Errorf("for the value: %+v", got)
	}
	if got := a.Exceptions.For("person@example.com"); len(got) != 0 {
		t.Errorf("for another value: %+v", got)
	}
	if got := b.Exceptions.For(value); len(got) != 0 {
		t.Errorf("for another tenant: %+v", got)
	}
	for _, suffix := range []string{"", "-wal"} {
		if raw, err := os.ReadFile(p.file("a") + suffix); err == nil && bytes.Contains(bytes.ToLower(raw), []byte("secret.person")) {
			t.Errorf("the database%s contains the value", suffix)
		}
	}
}

func TestExceptionsOfAnotherProcessApply(t *testing.T) {
	p := newTestDir(t)
	one, other := p.open(t, "a"), p.open(t, "a")
	if got := other.Exceptions.For("x"); len(got) != 0 {
		t.Fatal(got)
	}
	e, err := one.Exceptions.Allow(t.Context(), vault.Exception{Type: detect.Phone}, "")
	if err != nil {
		t.Fatal(err)
	}
	p.now = p.now.Add(time.Second)
	if got := other.Exceptions.For("x"); len(got) != 1 {
		t.Errorf("after it was added: %+v", got)
	}
	if err := one.Exceptions.Disallow(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	p.now = p.now.Add(time.Second)
	if got := other.Exceptions.For("x"); len(got) != 0 {
		t.Errorf("after it was removed: %+v", got)
	}
}

// The hash of a value is useless without the key, so that nothing would ever match it.
func TestShredRemovesExceptionsForValues(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a")
	for _, value := range []string{"ada@example.com", ""} {
		if _, err := v.Exceptions.Allow(t.Context(), vault.Exception{Type: detect.Email}, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Shred(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := v.Exceptions.List(t.Context()); err != nil || len(all) != 1 || all[0].ForValue {
		t.Errorf("%+v, %v", all, err)
	}
}
