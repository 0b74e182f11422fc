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

func safe(dir string) *secret.Safe {
	return secret.NewSafe(filepath.Join(dir, "sealed"), filepath.Join(dir, "key"))
}

func TestATextComesBackUnderItsName(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "sesame", string(bytes.Repeat([]byte{0, 255}, 1<<16))} {
		if err := safe(dir).Put("a/../b\x00", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := safe(dir).Find("a/../b\x00"); err != nil || string(got) != text {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
	}
	if _, err := safe(dir).Find("other"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := errors.Join(safe(dir).Delete("a/../b\x00"), safe(dir).Delete("a/../b\x00")); err != nil {
		t.Error(err)
	}
	if _, err := safe(dir).Find("a/../b\x00"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestEveryPurposeHasAKeyOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	if _, err := safe(dir).Derive("a", false); !errors.Is(err, secret.ErrSealed) {
		t.Errorf("without a key: %v", err)
	}
	derive := func(purpose string, create bool) string {
		k, err := safe(dir).Derive(purpose, create)
		if err != nil || len(k) != 32 {
			t.Fatalf("%d bytes, %v", len(k), err)
		}
		return string(k)
	}
	a, b := derive("a", true), derive("b", false)
	own, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil || a == b || a == string(own) || derive("a", false) != a {
		t.Errorf("keys are not told apart, or not the same again; %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), own[:5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := safe(dir).Derive("a", true); !errors.Is(err, secret.ErrSealed) {
		t.Errorf("with a damaged key: %v", err)
	}
}

func TestFilesAreForTheirOwnerAndSaySealedThings(t *testing.T) {
	dir := t.TempDir()
	if err := safe(dir).Put("name", []byte("sesame-open")); err != nil {
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
			t.Errorf("%s tells", path)
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

// file is the one sealed text in dir.
func file(t *testing.T, dir string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "sealed", "*"))
	if len(found) != 1 {
		t.Fatal(found)
	}
	return found[0]
}

func TestWhatIsNotItsOwnDoesNotOpen(t *testing.T) {
	for name, harm := range map[string]func(dir, text string) error{
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
		s := safe(dir)
		if err := s.Put("mine", []byte("sesame")); err != nil {
			t.Fatal(err)
		}
		if err := harm(dir, file(t, dir)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Find("mine"); !errors.Is(err, secret.ErrSealed) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestATextIsBoundToItsName(t *testing.T) {
	dir := t.TempDir()
	s := safe(dir)
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
	if got, err := s.Find("yours"); !errors.Is(err, secret.ErrSealed) {
		t.Errorf("%q %v", got, err)
	}
}

func TestManyAtOnceMakeOneKey(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			name := string(rune('a' + i))
			if err := safe(dir).Put(name, []byte(name)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 32 {
		name := string(rune('a' + i))
		if got, err := safe(dir).Find(name); err != nil || string(got) != name {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestAStampTellsOfEveryChange(t *testing.T) {
	s := safe(t.TempDir())
	last := s.Stamp("a")
	if !last.Same(s.Stamp("a")) || !last.Same(secret.Stamp{}) {
		t.Error("nothing is not nothing")
	}
	for i, change := range []func() error{
		func() error { return s.Put("a", []byte("1")) }, func() error { return s.Put("a", []byte("1")) },
		func() error { return s.Put("a", []byte("2")) }, func() error { return s.Delete("a") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if now := s.Stamp("a"); now.Same(last) || !now.Same(s.Stamp("a")) {
			t.Errorf("change %d does not show", i)
		} else {
			last = now
		}
	}
}

func TestOneHoldsTheLock(t *testing.T) {
	s := safe(t.TempDir())
	var held atomic.Int32 // the detector of races knows nothing of files
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				unlock, err := s.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				if held.Add(1) != 1 {
					t.Error("two hold it")
				}
				held.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
}
