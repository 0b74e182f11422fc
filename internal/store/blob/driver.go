package blob

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// partSize is the size of a part. S3 requires 5 MiB and allows 10,000 parts, which are 78 GiB.
const partSize = 8 << 20

// maxParts is the maximum number of parts of an object.
const maxParts = 10000

// driver is one kind of bucket. Keys are valid and have the prefix of the bucket's URL. Otherwise the methods are
// those of Bucket.
type driver interface {
	// put creates an object of one part.
	put(ctx context.Context, key string, body []byte) error
	// putParts creates an object of several parts, or of one. After an error of the sequence, nothing is created,
	// and the error is returned as it is.
	putParts(ctx context.Context, key string, parts iter.Seq2[part, error]) error
	get(ctx context.Context, key string, r Range) (*Reader, error)
	// list calls yield with each object until that returns false.
	list(ctx context.Context, prefix, after string, yield func(Object) bool) error
	delete(ctx context.Context, key string) error
	close() error
}

// bucket is a Bucket that uses a driver.
type bucket struct {
	driver
	name   name
	prefix string // of all keys; ends with "/" if it is not empty
}

func (b *bucket) String() string { return string(b.name) }

func (b *bucket) Close() error { return b.close() }

// key returns the key with the prefix, or an error if it is not valid.
func (b *bucket) key(key string) (string, error) {
	if err := checkKey(key); err != nil { // also without the prefix, which could complete it
		return "", err
	}
	return b.prefix + key, checkKey(b.prefix + key)
}

func (b *bucket) Create(ctx context.Context, key string, body io.Reader) error {
	full, err := b.key(key)
	if err != nil {
		return err
	}
	first, err := readPart(body)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return b.name.unavailable(ctx, creating(full), context.Cause(ctx))
	case len(first) < partSize:
		return b.put(ctx, full, first)
	}
	return b.putParts(ctx, full, parts(first, body))
}

// CreateInParts is Create with the requests for large objects, for Probe.
func (b *bucket) CreateInParts(ctx context.Context, key string, body io.Reader) error {
	full, err := b.key(key)
	if err != nil {
		return err
	}
	first, err := readPart(body)
	if err != nil {
		return err
	}
	return b.putParts(ctx, full, parts(first, body))
}

func (b *bucket) Get(ctx context.Context, key string, r Range) (*Reader, error) {
	full, err := b.key(key)
	if err != nil {
		return nil, err
	}
	if r.Begin < 0 || r.End < 0 {
		return nil, fault.New(fault.Invalid, "the range %d to %d of %q is negative", r.Begin, r.End, key)
	}
	reader, err := b.get(ctx, full, r)
	if err != nil {
		return nil, err
	}
	reader.Key = key
	return reader, nil
}

func (b *bucket) List(ctx context.Context, prefix, after string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := checkBytes(prefix + after); err != nil {
			yield(Object{}, err)
			return
		}
		if after != "" {
			after = b.prefix + after
		}
		ended, last := false, ""
		var disorder error
		err := b.list(ctx, b.prefix+prefix, after, func(o Object) bool {
			switch key, below := strings.CutPrefix(o.Key, b.prefix); {
			case !below || checkKey(key) != nil || o.Key <= after:
				return true // of another program, or not after
			case key <= last:
				disorder = b.name.invalid(nil, "it lists %q after %q, but must sort keys by their bytes", key, last)
				return false
			default:
				o.Key, last = key, key
				ended = !yield(o, nil)
				return !ended
			}
		})
		if disorder != nil {
			err = disorder
		}
		if err != nil && !ended {
			yield(Object{}, err)
		}
	}
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	full, err := b.key(key)
	if err != nil {
		return err
	}
	return b.delete(ctx, full)
}

// part is a part of a body. Its data are valid until the next part.
type part struct {
	data []byte // partSize bytes, or fewer if it is the last
	last bool
}

// smallBody is the size up to which a body takes no memory for a whole part.
const smallBody = 64 << 10

// readPart reads the first part of a body: all of it, if that is less than a part.
func readPart(body io.Reader) ([]byte, error) {
	data, read := make([]byte, smallBody), 0
	for _, size := range []int{smallBody, partSize} {
		if size > len(data) {
			data = append(make([]byte, 0, size), data...)[:size]
		}
		n, err := io.ReadFull(body, data[read:])
		read += n
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return data[:read], nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the body of an object: %w", err)
		}
	}
	return data, nil
}

// parts returns the parts of a body of which the first was read. An empty body has one part. One byte is
// read ahead, so that the last part is known.
func parts(first []byte, rest io.Reader) iter.Seq2[part, error] {
	return func(yield func(part, error) bool) {
		data := first
		for n := 1; ; n++ {
			var ahead [1]byte
			_, err := io.ReadFull(rest, ahead[:])
			switch {
			case err == io.EOF:
				yield(part{data, true}, nil)
				return
			case err != nil:
				yield(part{}, fmt.Errorf("read the body of an object: %w", err))
				return
			case n == maxParts:
				yield(part{}, fault.New(fault.Invalid, "an object has more than %d GiB", maxParts*partSize>>30))
				return
			case !yield(part{data, false}, nil):
				return
			}
			data = first[:partSize]
			data[0] = ahead[0]
			size, err := io.ReadFull(rest, data[1:])
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				yield(part{}, fmt.Errorf("read the body of an object: %w", err))
				return
			}
			data = data[:size+1]
		}
	}
}
