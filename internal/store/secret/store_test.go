package secret_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

func newStore(dir string) *secret.Store {
	return secret.NewStore(filepath.Join(dir, "secrets"), filepath.Join(dir, "key"))
}

func TestPutFindDelete(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "sesame", string(bytes.Repeat([]byte{0, 255}, 1<<16))} {
		if err := newStore(dir).Put("a/../b\x00", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := newStore(dir).Find("a/../b\x00"); err != nil || string(got) != text {
			t.Errorf("Find returned %d bytes, %v", len(got), err)
		}
	}
	if _, err := newStore(dir).Find("other"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := errors.Join(newStore(dir).Delete("a/../b\x00"), newStore(dir).Delete("a/../b\x00")); err != nil {
		t.Error(err)
	}
	if _, err := newStore(dir).Find("a/../b\x00"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestDeriveKey(t *testing.T) {
	dir := t.TempDir()
	if _, err := newStore(dir).DeriveKey("a", false); !errors.Is(err, secret.ErrUndecryptable) {
		t.Errorf("without a key: %v", err)
	}
	derive := func(purpose string, create bool) string {
		k, err := newStore(dir).DeriveKey(purpose, create)
		if err != nil || len(k) != 32 {
			t.Fatalf("%d bytes, %v", len(k), err)
		}
		return string(k)
	}
	a, b := derive("a", true), derive("b", false)
	own, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil || a == b || a == string(own) || derive("a", false) != a {
		t.Errorf("derived keys are equal for different purposes, or differ for one purpose; %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), own[:5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(dir).DeriveKey("a", true); !errors.Is(err, secret.ErrUndecryptable) {
		t.Errorf("with a damaged key: %v", err)
	}
}

func TestFilesArePrivateAndEncrypted(t *testing.T) {
	dir := t.TempDir()
	if err := newStore(dir).Put("name", []byte("sesame-open")); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte("sesame")) || bytes.Contains([]byte(path), []byte("name")) {
			t.Errorf("%s reveals the text or its name", path)
		}
		if fi, _ := e.Info(); runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, fi.Mode())
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

// file returns the only encrypted text in dir.
func file(t *testing.T, dir string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "secrets", "*"))
	if len(found) != 1 {
		t.Fatal(found)
	}
	return found[0]
}

func TestFindRejectsWrongKeyAndDamage(t *testing.T) {
	for name, damage := range map[string]func(dir, text string) error{
		"no key":      func(dir, _ string) error { return os.Remove(filepath.Join(dir, "key")) },
		"another key": func(dir, _ string) error { return os.WriteFile(filepath.Join(dir, "key"), make([]byte, 32), 0o600) },
		"half a key":  func(dir, _ string) error { return os.Truncate(filepath.Join(dir, "key"), 16) },
		"half a text": func(_, text string) error { return os.Truncate(text, 20) },
		"no text":     func(_, text string) error { return os.Truncate(text, 0) },
		"another bit": func(_, text string) error {
			b, err := os.ReadFile(text)
			b[len(b)-1] ^= 1
			return errors.Join(err, os.WriteFile(text, b, 0o600))
		},
	} {
		dir := t.TempDir()
		s := newStore(dir)
		if err := s.Put("mine", []byte("sesame")); err != nil {
			t.Fatal(err)
		}
		if err := damage(dir, file(t, dir)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Find("mine"); !errors.Is(err, secret.ErrUndecryptable) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestTextIsBoundToItsName(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	if err := s.Put("mine", []byte("sesame")); err != nil {
		t.Fatal(err)
	}
	mine, err := os.ReadFile(file(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Delete("mine"), s.Put("yours", []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file(t, dir), mine, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Find("yours"); !errors.Is(err, secret.ErrUndecryptable) {
		t.Errorf("%q %v", got, err)
	}
}

func TestConcurrentPutCreatesOneKey(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			name := string(rune('a' + i))
			if err := newStore(dir).Put(name, []byte(name)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 32 {
		name := string(rune('a' + i))
		if got, err := newStore(dir).Find(name); err != nil || string(got) != name {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestStampChangesWithEveryPutAndDelete(t *testing.T) {
	s := newStore(t.TempDir())
	last := s.Stamp("a")
	if !last.Equal(s.Stamp("a")) || !last.Equal(secret.Stamp{}) {
		t.Error("the stamp of a missing text is not the zero stamp")
	}
	for i, change := range []func() error{
		func() error { return s.Put("a", []byte("1")) }, func() error { return s.Put("a", []byte("1")) },
		func() error { return s.Put("a", []byte("2")) }, func() error { return s.Delete("a") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if now := s.Stamp("a"); now.Equal(last) || !now.Equal(s.Stamp("a")) {
			t.Errorf("change %d does not change the stamp", i)
		} else {
			last = now
		}
	}
}

func TestLockIsExclusive(t *testing.T) {
	s := newStore(t.TempDir())
	var holders atomic.Int32 // the race detector does not know file locks
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				unlock, err := s.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two goroutines hold the lock")
				}
				holders.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
}
