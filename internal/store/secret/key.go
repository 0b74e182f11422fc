package secret

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// KeyFile is the path of a file that holds a key and nothing else. Several
// processes may read and make it at once.
type KeyFile string

const keySize = 32

// Read returns the key. fs.ErrNotExist says that there is none, ErrSealed that
// the file holds something else. A key that does not have the fingerprint beside it
// is refused.
func (k KeyFile) Read() ([]byte, error) {
	key, err := k.read()
	if err != nil {
		return nil, err
	}
	need, err := os.ReadFile(k.mark())
	if errors.Is(err, fs.ErrNotExist) {
		return key, nil
	}
	if err != nil {
		return nil, k.missing(err, "")
	}
	return key, check(key, strings.TrimSpace(string(need)))
}

func (k KeyFile) read() ([]byte, error) {
	f, err := os.Open(string(k))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, keySize+1))
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%w: the file does not have %d bytes", ErrSealed, keySize)
	}
	return key, err
}

// Make returns the key, and makes it for its owner's eyes if there is none and
// never was one that Use has put its fingerprint beside.
func (k KeyFile) Make() ([]byte, error) {
	path := string(k)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(context.Background(), path+".lock") // held for the time of one small write
	if err != nil {
		return nil, err
	}
	defer unlock()
	if key, err := k.Read(); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if need, err := os.ReadFile(k.mark()); !errors.Is(err, fs.ErrNotExist) {
		return nil, k.missing(err, strings.TrimSpace(string(need)))
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	if err := write(path, key); err != nil {
		return nil, err
	}
	return key, durable.Dir(filepath.Dir(path))
}

// Use returns the key for what must not be lost, such as a tenant's keys or the chain
// of an audit log. The first use makes the key if need be and puts its fingerprint
// beside it; from then on only that key is used, and one that was made since it was
// lost is refused.
func (k KeyFile) Use() ([]byte, error) {
	if _, err := os.Lstat(k.mark()); errors.Is(err, fs.ErrNotExist) {
		if err := k.first(); err != nil {
			return nil, k.missing(err, "")
		}
	}
	need, err := os.ReadFile(k.mark())
	if err != nil {
		return nil, k.missing(err, "")
	}
	return k.Only(strings.TrimSpace(string(need)))
}

// Check refuses a key that is lost, or is not the one whose fingerprint lies beside
// it. Before the first Use there is nothing to check.
func (k KeyFile) Check() error {
	if _, err := os.Lstat(k.mark()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := k.Use()
	return err
}

// Only returns the key if it has a fingerprint.
func (k KeyFile) Only(need string) ([]byte, error) {
	key, err := k.read()
	if err != nil {
		return nil, k.missing(err, need)
	}
	return key, check(key, need)
}

// check refuses a key that does not have a fingerprint.
func check(key []byte, need string) error {
	if have := Fingerprint(key); have != need {
		return fault.New(fault.Unavailable, "the master key with fingerprint %.16s is needed, and the one in the key file has %s", need, have).
			WithHint("put the right key back; nothing is lost until then, and no other key is used")
	}
	return nil
}

func (k KeyFile) missing(err error, need string) error {
	if err == nil {
		err = fs.ErrNotExist
	}
	if need != "" {
		need = " with fingerprint " + need[:min(len(need), 16)]
	}
	return fault.Wrap(fault.Unavailable, err, "the master key%s cannot be read from the key file", need).
		WithHint("put the key back, of %d bytes and readable for the user that runs Sandpiper; nothing is lost until then, and no other key is used", keySize)
}

// first puts the fingerprint beside the key, unless another process did.
func (k KeyFile) first() error {
	key, err := k.Make()
	if err != nil {
		return err
	}
	unlock, err := lock(context.Background(), string(k)+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(k.mark()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := write(k.mark(), []byte(Fingerprint(key)+"\n")); err != nil {
		return err
	}
	return durable.Dir(filepath.Dir(string(k)))
}

func (k KeyFile) mark() string { return string(k) + ".fingerprint" }

// Fingerprint names a key and tells nothing else about it.
func Fingerprint(key []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("sandpiper fingerprint"))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
