package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// probePrefix is the directory of the objects of Probe. They are deleted, unless the process is killed.
const probePrefix = "probe"

// probeCreators is how many creators of one key Probe lets compete.
const probeCreators = 4

// Probe proves that a bucket can be used: of creators of one random key at the same time exactly one succeeds, a later
// one fails, the object has the body of the first, and is listed and deleted. It tries objects of one part and of several,
// which stores create by different requests. The error of a store that replaces objects is Invalid: it must not be used.
func Probe(ctx context.Context, b Bucket) error {
	if err := probe(ctx, b, b.Create); err != nil {
		return err
	}
	if large, ok := b.(interface {
		CreateInParts(ctx context.Context, key string, body io.Reader) error
	}); ok {
		if err := probe(ctx, b, large.CreateInParts); err != nil {
			return fault.Wrap(fault.KindOf(err), err, "objects of several parts: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
	}
	return nil
}

type creator func(ctx context.Context, key string, body io.Reader) error

func probe(ctx context.Context, b Bucket, create creator) (err error) {
	key := probePrefix + "/" + strings.ToLower(rand.Text())
	defer func() {
		if deleted := b.Delete(context.WithoutCancel(ctx), key); err == nil {
			err = deleted
		}
	}()
	won, err := race(ctx, create, key)
	if err != nil {
		return err
	}
	if len(won) != 1 {
		return replaces("%d of %d creators of one object succeeded at the same time", len(won), probeCreators)
	}
	switch err := create(ctx, key, strings.NewReader("late")); {
	case err == nil:
		return replaces("an object was created twice")
	case !errors.Is(err, ErrExists):
		return err
	}
	return verify(ctx, b, key, won[0])
}

// race lets creators compete, and returns the bodies of those that succeeded.
func race(ctx context.Context, create creator, key string) (won []string, err error) {
	errs := make([]error, probeCreators)
	var g errgroup.Group
	for i := range errs {
		g.Go(func() error {
			errs[i] = create(ctx, key, bytes.NewReader(fmt.Append(nil, i)))
			return nil
		})
	}
	_ = g.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			won = append(won, fmt.Sprint(i))
		case !errors.Is(err, ErrExists):
			return nil, err
		}
	}
	return won, nil
}

// verify reads an object back, and lists it.
func verify(ctx context.Context, b Bucket, key, body string) error {
	r, err := b.Get(ctx, key, Range{})
	if err != nil {
		return err
	}
	defer r.Close()
	stored, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if string(stored) != body {
		return replaces("an object does not have the body of the creator that succeeded")
	}
	for o, err := range b.List(ctx, key, "") {
		if err != nil {
			return err
		}
		if o.Key == key {
			return nil
		}
	}
	return fault.New(fault.Invalid, "the bucket does not list an object that was created")
}

func replaces(format string, args ...any) error {
	return fault.New(fault.Invalid, "the bucket does not honour create-if-absent: %s", fmt.Sprintf(format, args...)).
		WithHint("use a store that honours If-None-Match, such as S3, or a directory on a local disk")
}
