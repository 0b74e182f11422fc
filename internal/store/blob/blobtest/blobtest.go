// Package blobtest is the conformance suite of buckets. Run tests every promise of blob.Bucket on a real store, with
// clients that share nothing but its address, as different machines would be.
//
// Tests of faults connect to the store by a Cutter, which ends connections when the test says so. The
// suite does not test what a store does on a loss of power, and no speed.
package blobtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

// Setup connects the suite to a store.
type Setup struct {
	// URL returns the URL of a new, empty bucket, which is removed when the test ends. Required.
	URL func(t testing.TB) string
	// Missing returns the URL of a bucket that does not exist. Required.
	Missing func(t testing.TB) string
	// Denied returns a URL of a bucket for which the credentials are wrong. Nil: the store has no credentials.
	Denied func(t testing.TB) string
	// ReadOnly calls use with a bucket that can be read only. It has the object "kept" with the body "kept". Nil: the store
	// has no permissions.
	ReadOnly func(t testing.TB, use func(blob.Bucket))
	// Via returns the URL of a bucket whose server is reached at an address of the suite. Nil: the store is no server.
	Via func(t testing.TB, address func(server string) string) string
	// Listed is the number of objects of the test of lists; 0 means 2,500 in slow tests, and 250 in others.
	Listed int
	// Huge is the size of the largest object of long tests; 0 means none. With HUGE_OBJECTS=1, it is 5 GiB for all stores that
	// do not keep objects in memory, which takes minutes and up to 15 GB of disk.
	Huge int64
	// InMemory is set if the store keeps objects in memory.
	InMemory bool
	// KillSize is the size of the objects whose creator is killed; 0 means 300,000 bytes.
	KillSize int
}

// Run tests that a store keeps the promises of blob.Bucket. TestMain of the package must call Main.
func Run(t *testing.T, setup Setup) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Setup)
	}{
		{"OneCreatorWins", testRaces},
		{"OneCreatorOfPartsWins", testPartRaces},
		{"ListIsCompleteAndSorted", testList},
		{"Ranges", testRanges},
		{"EmptyObject", testEmpty},
		{"Keys", testKeys},
		{"LargeObject", testLarge},
		{"HugeObject", testHuge},
		{"BodyFails", testBodyFails},
		{"Delete", testDelete},
		{"CancelledContext", testCancelled},
		{"KilledCreator", testKilled},
		{"Missing", testMissing},
		{"Denied", testDenied},
		{"ReadOnly", testReadOnly},
		{"AnswerIsLost", testAnswerLost},
		{"Unreachable", testUnreachable},
		{"Probe", testProbe},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, setup) })
	}
}

func open(t testing.TB, url string) blob.Bucket {
	t.Helper()
	b, err := blob.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func create(t testing.TB, b blob.Bucket, key string, body []byte) {
	t.Helper()
	if err := b.Create(t.Context(), key, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, b blob.Bucket, key string, r blob.Range) (blob.Object, []byte) {
	t.Helper()
	reader, err := b.Get(t.Context(), key, r)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	return reader.Object, body
}

func keys(t testing.TB, b blob.Bucket, prefix, after string) (found []string) {
	t.Helper()
	for o, err := range b.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		found = append(found, o.Key)
	}
	return found
}

// wantKind fails the test unless err has a kind, and the URL does not appear with credentials.
func wantKind(t testing.TB, what string, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("%s: %v, want an error of the kind %s", what, err, kind)
	}
}

func wantExists(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, blob.ErrExists) {
		t.Errorf("%s: %v, want ErrExists", what, err)
	}
}

// body returns size bytes that depend on a name: an object with a part of another body is recognized.
func body(name string, size int64) io.Reader {
	seed := [32]byte{}
	copy(seed[:], name)
	return io.LimitReader(rand.NewChaCha8(seed), size)
}

// check fails the test unless a reader has the bytes of body.
func check(t testing.TB, name string, size int64, r io.Reader) {
	t.Helper()
	if err := compare(body(name, size), r); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func compare(want, got io.Reader) error {
	left, right := make([]byte, 1<<16), make([]byte, 1<<16)
	for offset := 0; ; {
		n, err := io.ReadFull(want, left)
		m, other := io.ReadFull(got, right)
		if other != nil && other != io.EOF && other != io.ErrUnexpectedEOF {
			return other
		}
		if n != m || !bytes.Equal(left[:n], right[:m]) {
			return fmt.Errorf("differs in or after byte %d", offset)
		}
		if err != nil {
			return nil
		}
		offset += n
	}
}
