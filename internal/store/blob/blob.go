// Package blob stores objects in a bucket: a directory, S3, Google Cloud Storage, Azure Blob Storage or a
// table of PostgreSQL. Each object is created once and never changed; of several creators of one key, exactly
// one succeeds, also if they are different machines. That is all that a log in the bucket needs.
//
// An object has a key and a body, a sequence of bytes. A part is the amount of a body that is in memory at a
// time: larger objects are sent in parts and appear when all of them are stored. A driver is the code for one
// kind of bucket; Open selects it by the scheme of a URL. All functions are safe for concurrent use, and
// buckets for any number of processes.
//
// The package encrypts nothing, retries only what the store has certainly not done, and keeps no cache. It does
// not trust a store to honour the condition of a create: Probe tries it.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Bucket holds objects. Errors are fault errors: NotFound if the object does not exist, Denied if the
// credentials are wrong or do not allow the operation, Invalid for a wrong key or URL, and Unavailable for
// all that may work later, such as a bucket that is missing. A cancelled context is in the chain of the error.
//
// A key has 1 to 1,000 bytes, with the prefix of the bucket's URL: elements of 1 to 255 of a-z, 0-9, '-', '_',
// '=' and '.', joined by '/'. An element does not begin or end with '.'. So every store, file system and URL
// keeps keys as they are. A key must not be a directory of another one, as "a" is of "a/b": some stores
// keep objects as files. Objects with other keys, which other programs have created, are not listed.
type Bucket interface {
	// Create stores the body as a new object. If the key exists, the error is ErrExists and nothing changes.
	// When Create returns nil, the object is durable: it survives a loss of power of this machine and, with
	// a cloud, of one of its zones. No reader and no list ever has a part of an object. If the reader of the body
	// fails, nothing is created. Create reads at most one part ahead, and does not seek.
	//
	// If the request to create was sent and its outcome is not known, as after a timeout, the error is
	// ErrUnknown: the object may exist, or may appear later. The caller calls Create again with the same key and
	// body; if that returns ErrExists, the body of the object tells who created it. Ensure does that.
	// All other errors mean that this call has created nothing and never will.
	Create(ctx context.Context, key string, body io.Reader) error
	// Get returns a reader of a range of an object, which the caller closes. If less than the range arrives, Read
	// returns an error other than io.EOF. The context applies until Close.
	Get(ctx context.Context, key string, r Range) (*Reader, error)
	// List returns the objects whose keys begin with the prefix and are greater than after, sorted by the
	// bytes of their keys. It has every object whose Create returned before List was called, and none whose
	// Delete had returned. Objects that are created or deleted during the iteration may be in it. It ends with the first error.
	List(ctx context.Context, prefix, after string) iter.Seq2[Object, error]
	// Delete removes an object. It succeeds if the object does not exist. After an error the object may exist
	// or not; Delete can be called again. The key can be created again: only the caller knows whether it may.
	Delete(ctx context.Context, key string) error
	// Close releases connections. It does not wait for operations.
	Close() error
}

// ErrExists is in the chain of the error of a Create whose key exists.
var ErrExists = errors.New("the object exists")

// ErrUnknown is in the chain of the error of a Create that may have created the object or not.
var ErrUnknown = errors.New("the outcome is unknown")

// Object describes an object.
type Object struct {
	Key  string
	Size int64
	Time time.Time // of its creation, by the clock of the store
}

// Range is a range of bytes, as a slice of the body would be: from Begin up to, and without, End. The zero
// value is the whole object. A range may be beyond the end: it has the bytes that exist.
type Range struct {
	Begin int64
	End   int64 // 0 means the end of the object
}

// within returns the offset and the length of the range in an object of a size.
func (r Range) within(size int64) (offset, length int64) {
	end := size
	if r.End > 0 {
		end = min(r.End, size)
	}
	offset = min(r.Begin, size)
	return offset, max(end-offset, 0)
}

// empty reports whether the range has no bytes of any object.
func (r Range) empty() bool { return r.End > 0 && r.End <= r.Begin }

// Reader reads a range of an object.
type Reader struct {
	Object // the whole object
	body   io.ReadCloser
}

// Read reads from the range.
func (r *Reader) Read(p []byte) (int, error) { return r.body.Read(p) }

// Close ends reading. The rest of the range is not read.
func (r *Reader) Close() error { return r.body.Close() }
