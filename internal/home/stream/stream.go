// Package stream keeps the answers to MCP requests in files, so that a client that lost its
// stream gets them after the daemon was restarted.
//
// There are files for each MCP connection, in a directory of the tenant. Answers are
// encrypted, bound to tenant, connection and stream. They are bounded in number of bytes and
// in age; the oldest are deleted first. An answer is in the file when Put returns, which a
// crash of the process does not change; a loss of power may lose it.
//
// A Store is safe for concurrent use, and several processes may have one for a directory. The
// package knows nothing of the protocol: its callers define the content of an answer, and
// control access to it.
package stream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// Config of a Store.
type Config struct {
	Dir        string           // of the tenant's answers; created by Put. Required
	Cipher     sealed.Cipher    // of the tenant. Required
	Keep       time.Duration    // how long an answer is kept; 0 means 10 minutes
	MaxBytes   int64            // of all answers; 0 means 64 MiB
	Connection int64            // of one connection; 0 means 8 MiB. An answer may have half of it
	Now        func() time.Time // nil means time.Now
	// CheckDisk returns an error if more bytes should not be written; nil means no check.
	CheckDisk func(more int64) error
}

func (c Config) withDefaults() Config {
	if c.Keep == 0 {
		c.Keep = 10 * time.Minute
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Connection == 0 {
		c.Connection = 8 << 20
	}
	if c.CheckDisk == nil {
		c.CheckDisk = func(int64) error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Answer is the answer to one request.
type Answer struct {
	Connection string // its id
	Stream     string // the id of the request's stream
	Index      int    // of the answer among the events of the stream
	Data       []byte
	Scopes     []string // that a token needs to read it; nil means that they are not known
}

// Store contains the answers of one tenant.
type Store struct {
	cfg Config

	mu    sync.Mutex
	bytes int64 // of all files, at least; -1 until they were counted
}

// New returns the Store of a directory. It does no I/O.
func New(cfg Config) *Store { return &Store{cfg: cfg.withDefaults(), bytes: -1} }

// idForm is the form of ids of connections, which are names of files.
var idForm = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// older is the suffix of the file with the older half of a connection's answers.
const older = ".1"

func (s *Store) file(connection string) string { return filepath.Join(s.cfg.Dir, connection) }

// record is an answer in a file, encrypted: a header in JSON, a newline, and the data. The
// length of the encrypted bytes is before it, in four bytes.
type record struct {
	Stream string    `json:"stream"`
	Index  int       `json:"index"`
	Time   time.Time `json:"time"`
	Scopes []string  `json:"scopes"`
}

// ofAnswers is the content of a connection's files.
var ofAnswers = sealed.Column{Table: "stream", Name: "answer", Keys: []string{"connection"}}

// Put stores an answer. Exhausted means that it is too large, or the disk nearly full.
func (s *Store) Put(a Answer) error {
	if !idForm.MatchString(a.Connection) {
		return fault.New(fault.Invalid, "%.40q is not the id of a connection", a.Connection)
	}
	head, err := json.Marshal(record{a.Stream, a.Index, s.cfg.Now(), a.Scopes})
	if err != nil {
		return err
	}
	text := append(append(head, '\n'), a.Data...)
	b := append(make([]byte, 4), s.cfg.Cipher.Seal(ofAnswers, text, a.Connection)...)
	if int64(len(b)) > s.cfg.Connection/2 {
		return fault.New(fault.Exhausted, "an answer of %d bytes is too large to be kept", len(a.Data))
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if err := s.cfg.CheckDisk(int64(len(b))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reserve(int64(len(b))); err != nil {
		return err
	}
	return s.append(a.Connection, b)
}

// append writes to the file of a connection. A full one becomes the older one. The caller
// holds mu.
func (s *Store) append(connection string, b []byte) error {
	name, size := s.file(connection), int64(0)
	if fi, err := os.Lstat(name); err == nil {
		size = fi.Size()
	}
	if size+int64(len(b)) > s.cfg.Connection/2 {
		if err := os.Rename(name, name+older); err != nil {
			return err
		}
		size = 0
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(s.cfg.Dir, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			f, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}
	}
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err != nil { // a full disk: later answers follow the last whole one
		err = errors.Join(err, f.Truncate(size))
	}
	return errors.Join(err, f.Close())
}

// Find returns the answer of a stream. The error is NotFound if it is not kept.
func (s *Store) Find(connection, stream string) (Answer, error) {
	if idForm.MatchString(connection) {
		for _, name := range []string{s.file(connection), s.file(connection) + older} {
			b, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return Answer{}, err
			}
			if a, ok := s.search(b, connection, stream); ok {
				return a, nil
			}
		}
	}
	return Answer{}, fault.New(fault.NotFound, "there is no answer of the stream %.40q", stream)
}

// search returns the last answer of a stream. It stops at a record that is incomplete, which
// a crash leaves, or that cannot be decrypted.
func (s *Store) search(b []byte, connection, stream string) (a Answer, ok bool) {
	for len(b) >= 4 {
		n := uint64(binary.BigEndian.Uint32(b))
		if b = b[4:]; uint64(len(b)) < n {
			break
		}
		text, err := s.cfg.Cipher.Open(ofAnswers, b[:n], connection)
		if err != nil {
			break
		}
		b = b[n:]
		head, data, _ := strings.Cut(string(text), "\n")
		var r record
		if json.Unmarshal([]byte(head), &r) == nil && r.Stream == stream && s.cfg.Now().Sub(r.Time) < s.cfg.Keep {
			a, ok = Answer{Connection: connection, Stream: stream, Index: r.Index, Data: []byte(data), Scopes: r.Scopes}, true
		}
	}
	return a, ok
}

// Forget deletes the answers of a connection.
func (s *Store) Forget(connection string) error {
	if !idForm.MatchString(connection) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, name := range []string{s.file(connection), s.file(connection) + older} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
