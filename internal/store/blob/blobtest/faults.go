package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

func testCancelled(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	create(t, b, "kept", []byte("kept"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.Create(ctx, "new", strings.NewReader("x"))
	if !errors.Is(err, context.Canceled) || errors.Is(err, blob.ErrUnknown) {
		t.Errorf("create: %v", err)
	}
	if _, err := b.Get(ctx, "kept", blob.Range{}); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	for _, err := range b.List(ctx, "", "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("list: %v", err)
		}
	}
	if err := b.Delete(ctx, "kept"); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	// During the second part of a body.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	err = b.Create(ctx, "new", io.MultiReader(body("new", 9<<20), &cancelling{cancel, body("rest", 9<<20)}))
	if !errors.Is(err, context.Canceled) || errors.Is(err, blob.ErrUnknown) {
		t.Errorf("create in parts: %v", err)
	}
	if got := keys(t, b, "", ""); len(got) != 1 || got[0] != "kept" {
		t.Errorf("%q are listed", got)
	}
}

// cancelling cancels a context when it is read.
type cancelling struct {
	cancel func()
	r      io.Reader
}

func (c *cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.r.Read(p)
}

func testMissing(t *testing.T, setup Setup) {
	b, err := blob.Open(t.Context(), setup.Missing(t))
	if err != nil {
		wantKind(t, "open", err, fault.Unavailable)
		return
	}
	defer b.Close()
	for what, err := range operations(t, b) {
		wantKind(t, what, err, fault.Unavailable)
		if errors.Is(err, blob.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func testDenied(t *testing.T, setup Setup) {
	if setup.Denied == nil {
		t.Skip("the store has no credentials")
	}
	url := setup.Denied(t)
	b, err := blob.Open(t.Context(), url)
	if err != nil {
		wantKind(t, "open", err, fault.Denied)
		return
	}
	defer b.Close()
	for what, err := range operations(t, b) {
		wantKind(t, what, err, fault.Denied)
	}
}

// operations calls the operations of a bucket that has the object "kept" or none, and returns their errors.
func operations(t testing.TB, b blob.Bucket) map[string]error {
	errs := map[string]error{}
	errs["create"] = b.Create(t.Context(), "new", strings.NewReader("x"))
	errs["create in parts"] = b.Create(t.Context(), "new", body("new", 9<<20))
	errs["delete"] = b.Delete(t.Context(), "kept")
	for _, err := range b.List(t.Context(), "", "") {
		errs["list"] = err
	}
	r, err := b.Get(t.Context(), "kept", blob.Range{})
	if err == nil {
		r.Close()
	}
	errs["get"] = err
	return errs
}

func testReadOnly(t *testing.T, setup Setup) {
	if setup.ReadOnly == nil {
		t.Skip("the store has no permissions")
	}
	setup.ReadOnly(t, func(b blob.Bucket) {
		for what, err := range operations(t, b) {
			switch what {
			case "get", "list":
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			default:
				wantKind(t, what, err, fault.Denied)
			}
		}
		if _, got := get(t, b, "kept", blob.Range{}); string(got) != "kept" {
			t.Errorf("the object has %q", got)
		}
	})
}

// testAnswerLost ends the connection when the store answers a create: the error is ErrUnknown, and Ensure finds the outcome.
func testAnswerLost(t *testing.T, setup Setup) {
	if setup.Via == nil {
		t.Skip("the store is no server")
	}
	cutter := newCutter(t)
	b := open(t, setup.Via(t, cutter.listen))
	create(t, b, "first", []byte("x")) // what the client asks before its first create
	unknown := 0
	for _, key := range []string{"a", "b", "c", "d"} {
		cutter.cut.Store(true)
		err := b.Create(t.Context(), key, strings.NewReader("mine"))
		cutter.cut.Store(false)
		if !errors.Is(err, blob.ErrUnknown) {
			t.Errorf("%q: %v, want ErrUnknown", key, err)
		}
		if _, err := b.Get(t.Context(), key, blob.Range{}); err == nil {
			unknown++
		}
		if err := blob.Ensure(t.Context(), b, key, []byte("mine")); err != nil {
			t.Errorf("%q: Ensure: %v", key, err)
		}
		wantExists(t, "Ensure with another body", blob.Ensure(t.Context(), b, key, []byte("other")))
	}
	if unknown == 0 {
		t.Error("no create whose answer was lost has created its object: the test does not cut the connection at its answer")
	}
	time.AfterFunc(300*time.Millisecond, func() { cutter.cut.Store(false) })
	cutter.cut.Store(true)
	if err := blob.Ensure(t.Context(), b, "e", []byte("mine")); err != nil {
		t.Errorf("Ensure while answers are lost: %v", err)
	}
}

// testUnreachable creates at an address where nobody listens: the outcome is known.
func testUnreachable(t *testing.T, setup Setup) {
	if setup.Via == nil {
		t.Skip("the store is no server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b, err := blob.Open(ctx, setup.Via(t, func(string) string { return nobody }))
	if err == nil {
		defer b.Close()
		err = b.Create(ctx, "new", bytes.NewReader([]byte("x")))
	}
	wantKind(t, "create", err, fault.Unavailable)
	if errors.Is(err, blob.ErrUnknown) || ctx.Err() != nil {
		t.Errorf("create: %v", err)
	}
}

// testProbe proves a good bucket, leaves nothing in it, and refuses one that replaces objects.
func testProbe(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	if err := blob.Probe(t.Context(), b); err != nil {
		t.Error(err)
	}
	err := blob.Probe(t.Context(), replacing{b})
	wantKind(t, "a bucket that replaces objects", err, fault.Invalid)
	if got := keys(t, b, "", ""); len(got) > 0 {
		t.Errorf("%q are listed", got)
	}
}

// replacing is a bucket that ignores the condition of a create.
type replacing struct{ blob.Bucket }

func (r replacing) Create(ctx context.Context, key string, body io.Reader) error {
	if err := r.Delete(ctx, key); err != nil {
		return err
	}
	if err := r.Bucket.Create(ctx, key, body); !errors.Is(err, blob.ErrExists) {
		return err
	}
	return nil
}
