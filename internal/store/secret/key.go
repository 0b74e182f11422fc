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
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// KeyFile is the path of a file that contains a key and nothing else. Several
// processes may read and create it at the same time. The key is pinned once its
// fingerprint is in the file KeyFile + ".fingerprint".
type KeyFile string

const keySize = 32

// Read returns the key. It returns fs.ErrNotExist if there is none, and
// ErrUndecryptable if the file has the wrong size. If a key is pinned, Read refuses
// any other key.
func (k KeyFile) Read() ([]byte, error) {
	key, err := k.read()
	if err != nil {
		return nil, err
	}
	want, err := os.ReadFile(k.fingerprintFile())
	if errors.Is(err, fs.ErrNotExist) {
		return key, nil
	}
	if err != nil {
		return nil, unreadableKey(err, "")
	}
	return key, checkFingerprint(key, strings.TrimSpace(string(want)))
}

func (k KeyFile) read() ([]byte, error) {
	f, err := os.OpenFile(string(k), os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe without a writer would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, keySize+1))
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("%w: the file does not have %d bytes", ErrUndecryptable, keySize)
	}
	return key, err
}

// ReadOrCreate returns the key. It creates the key, with mode 0600, if there is none
// and no key is pinned.
func (k KeyFile) ReadOrCreate() ([]byte, error) {
	path := string(k)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockFile(context.Background(), path+".lock") // held for one small write only
	if err != nil {
		return nil, err
	}
	defer unlock()
	if key, err := k.Read(); !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if want, err := os.ReadFile(k.fingerprintFile()); !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadableKey(err, strings.TrimSpace(string(want)))
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	if err := durable.WriteFile(path, key); err != nil {
		return nil, err
	}
	return key, durable.SyncDir(filepath.Dir(path))
}

// ReadPinned returns the key for data that must not become unreadable, such as a
// tenant's keys or the chain of an audit log. The first call creates a missing key
// and pins it; later calls refuse any other key, also one created after the pinned
// key was lost.
func (k KeyFile) ReadPinned() ([]byte, error) {
	if _, err := os.Lstat(k.fingerprintFile()); errors.Is(err, fs.ErrNotExist) {
		if err := k.pin(); err != nil {
			return nil, unreadableKey(err, "")
		}
	}
	want, err := os.ReadFile(k.fingerprintFile())
	if err != nil {
		return nil, unreadableKey(err, "")
	}
	return k.ReadMatching(strings.TrimSpace(string(want)))
}

// IsPinned reports whether a key is pinned.
func (k KeyFile) IsPinned() (bool, error) {
	_, err := os.Lstat(k.fingerprintFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Check fails if the pinned key is missing or the key file contains another one. It
// returns nil if no key is pinned.
func (k KeyFile) Check() error {
	if _, err := os.Lstat(k.fingerprintFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := k.ReadPinned()
	return err
}

// ReadMatching returns the key if it has the fingerprint want.
func (k KeyFile) ReadMatching(want string) ([]byte, error) {
	key, err := k.read()
	if err != nil {
		return nil, unreadableKey(err, want)
	}
	return key, checkFingerprint(key, want)
}

// checkFingerprint fails if the key does not have the fingerprint want.
func checkFingerprint(key []byte, want string) error {
	if have := Fingerprint(key); have != want {
		return fault.New(fault.Unavailable, "the master key with fingerprint %.16s is needed, and the one in the key file has %s", want,
			have).
			WithHint("restore the right key; no data is lost, and no other key is accepted")
	}
	return nil
}

// unreadableKey reports that the key with a fingerprint, or any key if fingerprint is
// empty, cannot be read.
func unreadableKey(err error, fingerprint string) error {
	if err == nil {
		err = fs.ErrNotExist
	}
	if fingerprint != "" {
		fingerprint = " with fingerprint " + fingerprint[:min(len(fingerprint), 16)]
	}
	f := fault.Wrap(fault.Unavailable, err, "the master key%s cannot be read from the key file", fingerprint)
	if fault.Inconclusive(err) {
		return f.WithHint("try again, and check the disk of the data directory")
	}
	return f.WithHint("restore the key file: %d bytes, readable by the user that runs Sandpiper; no data is lost, and no other key is "+
		"accepted", keySize)
}

// pin creates a missing key and writes its fingerprint, unless another process has.
func (k KeyFile) pin() error {
	key, err := k.ReadOrCreate()
	if err != nil {
		return err
	}
	unlock, err := lockFile(context.Background(), string(k)+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(k.fingerprintFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.WriteFile(k.fingerprintFile(), []byte(Fingerprint(key)+"\n")); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(string(k)))
}

func (k KeyFile) fingerprintFile() string { return string(k) + ".fingerprint" }

// Fingerprint returns an identifier of a key that reveals nothing else about it.
func Fingerprint(key []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("sandpiper fingerprint"))
	return hex.EncodeToString(h.Sum(nil)[:8])
}
