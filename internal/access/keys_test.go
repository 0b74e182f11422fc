package access_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func openKeys(t *testing.T, path string) *access.Keys {
	t.Helper()
	keys, err := access.OpenKeys(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() })
	return keys
}

func parse(t *testing.T, uid string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(uid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newKey(t *testing.T, keys *access.Keys, key access.Key) (access.Key, string) {
	t.Helper()
	key, text, err := keys.New(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return key, text
}

func TestKeyIdentifiesItsTenant(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.db")
	keys, other := openKeys(t, path), openKeys(t, path)
	a, b := parse(t, "customer_A"), parse(t, "customer_a")
	scopes := []access.Scope{access.Execute, access.Files}
	keyA, textA := newKey(t, keys, access.Key{Tenant: a, Name: "ci", Scopes: scopes})
	keyB, textB := newKey(t, keys, access.Key{Tenant: b, Scopes: []access.Scope{access.Admin}})
	for _, k := range []*access.Keys{keys, other} {
		who, err := k.Verify(t.Context(), textA)
		if err != nil || who.Tenant != a || !slices.Equal(who.Scopes, scopes) || !who.Expires.IsZero() {
			t.Errorf("%+v, %v", who, err)
		}
		if who, err = k.Verify(t.Context(), textB); err != nil || who.Tenant != b {
			t.Errorf("%+v, %v", who, err)
		}
	}
	if !access.IsKey(textA) || keyA.ID == keyB.ID || !strings.Contains(textA, keyA.ID) {
		t.Errorf("ids %q and %q", keyA.ID, keyB.ID)
	}
	secretB := textB[strings.LastIndexByte(textB, '_'):]
	for _, text := range []string{
		"", "sandpiper_", "sandpiper__", "sandpiper_" + keyA.ID, "sandpiper_" + keyA.ID + "_", textA + "x", textA[:len(textA)-1],
		strings.ToUpper(textA),
		"sandpiper_" + keyA.ID + secretB, strings.TrimPrefix(textA, "sandpiper_"), "sandpiper_x_x", "sandpiper_' OR 1=1_x",
		strings.Repeat("sandpiper_", 1<<16),
	} {
		if who, err := keys.Verify(t.Context(), text); !errors.Is(err, access.ErrUnknown) || fault.Message(err) != "unknown token" ||
			!who.Tenant.IsZero() {
			t.Errorf("%.60q: %+v, %v", text, who, err)
		}
	}
	if list, err := keys.List(t.Context(), a); err != nil || len(list) != 1 || list[0].Name != "ci" || list[0].Tenant != a {
		t.Errorf("keys of %s: %+v, %v", a, list, err)
	}
	if list, err := keys.List(t.Context(), tenant.ID{}); err != nil || len(list) != 2 {
		t.Errorf("all keys: %+v, %v", list, err)
	}
}

func TestRevokedAndExpiredKeysAreRefusedEverywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.db")
	keys, other := openKeys(t, path), openKeys(t, path)
	a := parse(t, "a")
	key, text := newKey(t, keys, access.Key{Tenant: a, Scopes: access.Scopes})
	_, kept := newKey(t, keys, access.Key{Tenant: a, Scopes: access.Scopes})
	_, short := newKey(t, keys, access.Key{Tenant: a, Scopes: access.Scopes, Expires: time.Now().Add(1500 * time.Millisecond)})
	if _, err := other.Verify(t.Context(), short); err != nil {
		t.Error(err)
	}
	first, err := other.Revoke(t.Context(), key.ID)
	if err != nil || first.Revoked.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := other.Revoke(t.Context(), key.ID); err != nil || !again.Revoked.Equal(first.Revoked) {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
	if _, err := keys.Verify(t.Context(), text); !errors.Is(err, access.ErrUnknown) || fault.Message(err) != "the key is revoked" {
		t.Errorf("a revoked key: %v", err)
	}
	if _, err := keys.Verify(t.Context(), kept); err != nil {
		t.Errorf("another key: %v", err)
	}
	time.Sleep(1500 * time.Millisecond)
	if _, err := keys.Verify(t.Context(), short); !errors.Is(err, access.ErrUnknown) || fault.Message(err) != "the key has expired" {
		t.Errorf("an expired key: %v", err)
	}
	if _, err := keys.Revoke(t.Context(), "absent"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("revoked an unknown key: %v", err)
	}
	if err := keys.Forget(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verify(t.Context(), kept); !errors.Is(err, access.ErrUnknown) {
		t.Errorf("a key of a deleted tenant: %v", err)
	}
}

func TestSecretIsNotStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.db")
	keys := openKeys(t, path)
	_, text := newKey(t, keys, access.Key{Tenant: parse(t, "a"), Scopes: access.Scopes})
	secret := []byte(text[strings.LastIndexByte(text, '_')+1:])
	for _, file := range []string{path, path + "-wal"} {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, secret) {
			t.Errorf("%s contains the secret", filepath.Base(file))
		}
	}
}

func TestNewRejectsUnusableKeys(t *testing.T) {
	keys := openKeys(t, filepath.Join(t.TempDir(), "access.db"))
	a := parse(t, "a")
	for name, key := range map[string]access.Key{
		"no tenant":     {Scopes: access.Scopes},
		"no scopes":     {Tenant: a},
		"unknown scope": {Tenant: a, Scopes: []access.Scope{"root"}},
		"long name":     {Tenant: a, Scopes: access.Scopes, Name: strings.Repeat("x", 101)},
		"expired":       {Tenant: a, Scopes: access.Scopes, Expires: time.Now()},
	} {
		if _, _, err := keys.New(t.Context(), key); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := keys.List(context.Background(), tenant.ID{}); err != nil || len(list) != 0 {
		t.Errorf("keys %+v, %v", list, err)
	}
}
