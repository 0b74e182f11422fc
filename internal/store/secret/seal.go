package secret

import (
	"context"
	"crypto/aes"
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
)

// Safe is a directory of sealed texts, each under a name. They are sealed with
// AES-256-GCM and a key in a file of its own, and each is bound to its name: one
// that is moved to another name does not open. What this keeps from is a copy of
// the directory, in a backup say, that comes without the key.
//
// The key is made with the first text. Several processes may have a Safe of the
// same directory, and a Safe is safe for concurrent use; who reads a text to
// replace it holds its Lock. It keeps no text in memory and asks nobody for the
// key.
type Safe struct{ dir, key string }

// NewSafe returns the Safe of a directory, whose key is in another place. Both
// are made when they are needed.
func NewSafe(dir, key string) *Safe { return &Safe{dir, key} }

// ErrSealed says of a text that it cannot be opened: the key is lost or another
// one, or the file is damaged.
var ErrSealed = errors.New("the text does not open with the key that there is")

// Put seals a text under a name, in place of what was there.
func (s *Safe) Put(name string, text []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	box, err := s.box(true)
	if err != nil {
		return err
	}
	return write(s.file(name), box.Seal(nil, nil, text, []byte(name)))
}

// Find opens the text of a name. fs.ErrNotExist says that there is none,
// ErrSealed that it cannot be opened.
func (s *Safe) Find(name string) ([]byte, error) {
	sealed, err := os.ReadFile(s.file(name))
	if err != nil {
		return nil, err
	}
	box, err := s.box(false)
	if err != nil {
		return nil, err
	}
	text, err := box.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, ErrSealed
	}
	return text, nil
}

// Delete removes the text of a name, if there is one.
func (s *Safe) Delete(name string) error {
	err := os.Remove(s.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.Dir(s.dir)
}

// Stamp tells texts of a name apart without opening them; it is the zero value
// if there is none.
func (s *Safe) Stamp(name string) Stamp {
	info, err := os.Stat(s.file(name))
	if err != nil {
		return Stamp{}
	}
	return Stamp{info}
}

// Stamp is the mark of one text in a Safe.
type Stamp struct{ info fs.FileInfo }

// Same tells whether nothing was put or deleted between the two.
func (s Stamp) Same(o Stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return os.SameFile(s.info, o.info) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// Lock makes the caller the only one, of all processes, who has the lock of the
// name, until it calls unlock.
func (s *Safe) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return lock(ctx, s.file(name)+".lock")
}

func lock(ctx context.Context, path string) (unlock func(), err error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	return func() { _ = l.Unlock() }, nil
}

// file is where a text lies: names may hold what file names cannot.
func (s *Safe) file(name string) string {
	h := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, hex.EncodeToString(h[:16]))
}

// Derive returns a key of 32 bytes for one purpose, from the one that seals texts:
// always the same, and of no help in finding that or those of other purposes. create
// has a missing key made; ErrSealed says that there is none, or that it is damaged.
func (s *Safe) Derive(purpose string, create bool) ([]byte, error) {
	key, err := s.find(create)
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, key, nil, purpose, keySize)
}

// box is what seals and opens.
func (s *Safe) box(create bool) (cipher.AEAD, error) {
	key, err := s.find(create)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// find returns the key there is; create has a missing one made.
func (s *Safe) find(create bool) ([]byte, error) {
	file := KeyFile(s.key)
	key, err := file.Read()
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, ErrSealed
		}
		key, err = file.Make()
	}
	return key, err
}

// write makes or replaces a file at once, for its owner's eyes.
func write(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return durable.Dir(filepath.Dir(path))
}
