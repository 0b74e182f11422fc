// Package bucketlog keeps logs of numbered entries in a bucket, and contents that entries refer to. All are encrypted.
//
// The numbers of a log have no gaps, and each entry is created once: a writer that appends number n+1 is told if another
// one was first, and it knows then that it is not the only one. An entry has a head, a value in JSON, and a body. A content
// is named by a keyed hash of itself, so that it is stored once, and nobody without the key can tell whether a
// content is in the bucket.
//
// Objects have the format of age, with a file key that is encrypted with the log's key and bound to the name of the
// object: an object that is moved to another name cannot be read. The key does not protect against an owner of
// the bucket who deletes objects, or puts back an older state of a log.
package bucketlog

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// ErrTaken is in the chain of the error of an Append whose number another writer has used.
var ErrTaken = errors.New("the number is taken")

// maxHead bounds the head of an entry.
const maxHead = 64 << 20

// Log is one log with its contents. It is safe for concurrent use.
type Log struct {
	bucket  blob.Bucket
	entries string // prefix of the keys of entries
	content string // prefix of the keys of contents
	seal    sealer
	hash    []byte // key of the hashes of contents
}

// New returns the log of a name: an element of a key of a blob.Bucket. The key has 32 bytes.
func New(bucket blob.Bucket, name string, key []byte) (*Log, error) {
	seal, err := secret.Derive(key, "objects")
	if err != nil {
		return nil, err
	}
	hash, err := secret.Derive(key, "contents\x00"+name)
	if err != nil {
		return nil, err
	}
	s, err := newSealer(seal)
	return &Log{bucket: bucket, entries: "t/" + name + "/", content: "b/" + name + "/", seal: s, hash: hash}, err
}

func (l *Log) key(n uint64) string { return fmt.Sprintf("%s%016x", l.entries, n) }

// envelope is the JSON before a body.
type envelope struct {
	ID   string          `json:"id"` // of the Append that created the entry
	Head json.RawMessage `json:"head"`
}

// Append creates the entry with a number. The error has ErrTaken in its chain if it exists, and blob.ErrUnknown if it is
// not known whether this call has created it. Body is read from its start, more than once if the bucket fails.
func (l *Log) Append(ctx context.Context, n uint64, head any, body io.ReadSeeker) error {
	value, err := json.Marshal(head)
	if err != nil {
		return err
	}
	id := rand.Text()
	e, err := json.Marshal(envelope{id, value})
	if err == nil && len(e) > maxHead {
		err = fault.New(fault.Exhausted, "the head of an entry of the log has %d bytes; at most %d are allowed", len(e), maxHead)
	}
	if err != nil {
		return err
	}
	for unknown := false; ; {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := l.create(ctx, l.key(n), io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, uint32(len(e)))),
			bytes.NewReader(e), body))
		switch {
		case errors.Is(err, blob.ErrExists):
			return l.compare(ctx, n, id, unknown)
		case errors.Is(err, blob.ErrUnknown):
			unknown = true
		case !unknown || err == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// retryPause is the time after which a create whose outcome is unknown is repeated.
const retryPause = 200 * time.Millisecond

// compare returns nil if the entry that exists was created by the Append with an id.
func (l *Log) compare(ctx context.Context, n uint64, id string, unknown bool) error {
	if unknown {
		e, err := l.open(ctx, n)
		if err != nil {
			return fault.Wrap(fault.KindOf(err), errors.Join(blob.ErrUnknown, err), "entry %d of the log exists and could not be compared",
				n)
		}
		defer e.Close()
		if e.id == id {
			return nil
		}
	}
	return fault.Wrap(fault.Unavailable, ErrTaken, "entry %d of the log was written by another process", n)
}

// Entry is an entry that is read.
type Entry struct {
	io.Reader // of the body
	Time      time.Time
	id        string
	head      json.RawMessage
	close     func() error
}

// Head decodes the head into a value.
func (e *Entry) Head(into any) error { return json.Unmarshal(e.head, into) }

// Close ends reading.
func (e *Entry) Close() error { return e.close() }

// Open returns the entry with a number, which the caller closes. A body that is truncated or altered ends with an error.
func (l *Log) Open(ctx context.Context, n uint64) (*Entry, error) { return l.open(ctx, n) }

func (l *Log) open(ctx context.Context, n uint64) (*Entry, error) {
	r, err := l.bucket.Get(ctx, l.key(n), blob.Range{})
	if err != nil {
		return nil, err
	}
	e, err := l.decode(r, l.key(n))
	if err != nil {
		return nil, errors.Join(fault.Wrap(fault.Unavailable, err, "the object %s cannot be read: %v", l.key(n), err), r.Close())
	}
	e.Time, e.close = r.Time, r.Close
	return e, nil
}

func (l *Log) decode(r io.Reader, key string) (*Entry, error) {
	plain, err := age.Decrypt(r, l.seal.of(key))
	if err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(plain, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxHead {
		return nil, errors.New("its head is too large")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(plain, text); err != nil {
		return nil, err
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	return &Entry{Reader: plain, id: e.ID, head: e.Head}, nil
}

// Number is the number of an entry in the bucket.
type Number struct {
	N    uint64
	Size int64     // of the object, in bytes
	Time time.Time // when it was created, by the clock of the bucket
}

// Numbers returns the numbers of the entries after one, in order.
func (l *Log) Numbers(ctx context.Context, after uint64) iter.Seq2[Number, error] {
	return func(yield func(Number, error) bool) {
		for o, err := range l.bucket.List(ctx, l.entries, l.key(after)) {
			n, wrong := strconv.ParseUint(strings.TrimPrefix(o.Key, l.entries), 16, 64)
			if err == nil && wrong != nil {
				continue // not an entry
			}
			if !yield(Number{n, o.Size, o.Time}, err) || err != nil {
				return
			}
		}
	}
}

// Delete deletes an entry.
func (l *Log) Delete(ctx context.Context, n uint64) error { return l.bucket.Delete(ctx, l.key(n)) }

// Name returns the name of a content.
func (l *Log) Name(content []byte) string {
	h := hmac.New(sha256.New, l.hash)
	h.Write(content)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)))
}

// Put stores a content under its name, unless it is stored.
func (l *Log) Put(ctx context.Context, name string, content []byte) error {
	for {
		err := l.create(ctx, l.content+name, bytes.NewReader(content))
		switch {
		case errors.Is(err, blob.ErrExists):
			return nil
		case !errors.Is(err, blob.ErrUnknown):
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// Get returns the content of a name.
func (l *Log) Get(ctx context.Context, name string) ([]byte, error) {
	key := l.content + name
	r, err := l.bucket.Get(ctx, key, blob.Range{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	plain, err := age.Decrypt(r, l.seal.of(key))
	var content []byte
	if err == nil {
		content, err = io.ReadAll(plain)
	}
	if err == nil && l.Name(content) != name {
		err = errors.New("it is another content")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the object %s cannot be read: %v", key, err)
	}
	return content, nil
}

// Contents returns the names of the contents.
func (l *Log) Contents(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for o, err := range l.bucket.List(ctx, l.content, "") {
			if !yield(strings.TrimPrefix(o.Key, l.content), err) || err != nil {
				return
			}
		}
	}
}

// Drop deletes a content.
func (l *Log) Drop(ctx context.Context, name string) error {
	return l.bucket.Delete(ctx, l.content+name)
}

func (l *Log) create(ctx context.Context, key string, plain io.Reader) error {
	body, err := age.EncryptReader(plain, l.seal.of(key))
	if err != nil {
		return err
	}
	return l.bucket.Create(ctx, key, body)
}
