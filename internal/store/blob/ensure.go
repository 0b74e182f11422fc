package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// ensurePause is the time between two tries of Ensure.
const ensurePause = 200 * time.Millisecond

// Ensure creates an object, and returns nil when the key has exactly this body: it repeats a create whose outcome is
// unknown, and compares an object that exists. If the key has another body, the error is ErrExists. So that an equal
// body proves that the caller has created it, the body has something that no other creator has, such as a random
// number. Ensure ends with the context; its error is ErrUnknown if a create may have happened, or may still happen.
func Ensure(ctx context.Context, b Bucket, key string, body []byte) error {
	var unknown error // of a create
	for {
		err := b.Create(ctx, key, bytes.NewReader(body))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrExists):
			return compare(ctx, b, key, body, err)
		case errors.Is(err, ErrUnknown):
			unknown = err
		case unknown == nil:
			return err
		case fault.KindOf(err) != fault.Unavailable:
			return fault.Wrap(fault.KindOf(err), errors.Join(ErrUnknown, err), "%s", fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
		select {
		case <-ctx.Done():
			return unknown
		case <-time.After(ensurePause):
		}
	}
}

// compare returns nil if an object has a body, and otherwise the error exists. If the object cannot be read, it is not
// known whether an earlier create of the caller has succeeded.
func compare(ctx context.Context, b Bucket, key string, body []byte, exists error) error {
	r, err := b.Get(ctx, key, Range{})
	if err == nil {
		defer r.Close()
		if r.Size != int64(len(body)) {
			return exists
		}
		var stored []byte
		if stored, err = io.ReadAll(r); err == nil {
			if bytes.Equal(stored, body) {
				return nil
			}
			return exists
		}
	}
	return fault.Wrap(fault.KindOf(err), errors.Join(ErrUnknown, err), "object %q exists and could not be compared", key)
}
