package secret

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Store is a directory of encrypted texts, each with a name. They are encrypted with
// AES-256-GCM and a key in a separate file, and each is bound to its name: a file
// that is moved to another name cannot be decrypted. This protects a copy of the
// directory without the key, such as a backup.
//
// The key is created with the first text. Several processes may use the same
// directory, and a Store is safe for concurrent use. A caller that reads a text to
// replace it holds its Lock. A Store keeps no text in memory.
type Store struct{ dir, key string }

// NewStore returns the Store of a directory with the key in the file named key. Both
// are created when they are first needed.
func NewStore(dir, key string) *Store { return &Store{dir, key} }

// ErrUndecryptable is returned for a text that cannot be decrypted: the key is
// missing, damaged or a different one, or the file is damaged.
var ErrUndecryptable = errors.New("the text cannot be decrypted with the key in the key file")

// Put encrypts and stores a text under a name. It replaces an existing text.
func (s *Store) Put(name string, text []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	aead, err := s.cipher(true)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.path(name), aead.Seal(nil, nil, text, []byte(name)))
}

// Find returns the decrypted text of a name. It returns fs.ErrNotExist if there is
// none, and ErrUndecryptable if it cannot be decrypted.
func (s *Store) Find(name string) ([]byte, error) {
	encrypted, err := os.ReadFile(s.path(name))
	if err != nil {
		return nil, err
	}
	aead, err := s.cipher(false)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, encrypted, []byte(name))
	if err != nil {
		return nil, ErrUndecryptable
	}
	return text, nil
}

// Delete removes the text of a name, if there is one.
func (s *Store) Delete(name string) error {
	err := os.Remove(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(s.dir)
}

// Stamp identifies the current text of a name without decrypting it. It is the zero
// value if there is no text.
func (s *Store) Stamp(name string) Stamp {
	info, err := os.Stat(s.path(name))
	if err != nil {
		return Stamp{}
	}
	return Stamp{info}
}

// Stamp identifies one version of a text in a Store.
type Stamp struct{ info fs.FileInfo }

// Equal reports whether no text was put or deleted between the two stamps.
func (s Stamp) Equal(o Stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return os.SameFile(s.info, o.info) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// Lock acquires the exclusive lock of a name, over all processes.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return lockFile(ctx, s.path(name)+".lock")
}

func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	return func() { _ = l.Unlock() }, nil
}

// path returns the file of a text. It is a hash of the name, since a name may contain
// characters that are not allowed in file names.
func (s *Store) path(name string) string {
	h := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, hex.EncodeToString(h[:16]))
}

// DeriveKey derives a key of 32 bytes for one purpose from the Store's key with HKDF.
// The result is always the same, and reveals neither the Store's key nor those of
// other purposes. If create is set, a missing Store key is created; otherwise
// DeriveKey returns ErrUndecryptable for it, and always for a damaged one.
func (s *Store) DeriveKey(purpose string, create bool) ([]byte, error) {
	key, err := s.readKey(create)
	if err != nil {
		return nil, err
	}
	return Derive(key, purpose)
}

// Derive is Store.DeriveKey for a key that is not in the Store's file.
func Derive(key []byte, purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, key, nil, purpose, keySize)
}

// cipher returns the AEAD that encrypts and decrypts texts.
func (s *Store) cipher(create bool) (cipher.AEAD, error) {
	key, err := s.readKey(create)
	if err != nil {
		return nil, err
	}
	return sealed.NewAEAD(key)
}

// readKey returns the key. If create is set, a missing key is created.
func (s *Store) readKey(create bool) ([]byte, error) {
	file := KeyFile(s.key)
	key, err := file.Read()
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, ErrUndecryptable
		}
		key, err = file.ReadOrCreate()
	}
	return key, err
}
