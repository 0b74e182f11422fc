package cluster

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
)

// left returns the numbers of the entries of a log, and how many contents it has.
func left(t *testing.T, log *bucketlog.Log) (entries []uint64, contents int) {
	t.Helper()
	for n, err := range log.Numbers(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, n.N)
	}
	for _, err := range log.Contents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		contents++
	}
	return entries, contents
}

func TestOldEntriesAreDeleted(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	b, err := blob.Open(ctx, "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	log, err := bucketlog.New(b, "acme", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	for i, e := range []struct {
		base uint64
		age  time.Duration
		has  string // content of a file
	}{{1, 40 * day, "one"}, {1, 39 * day, "two"}, {3, 10 * day, "one"}, {3, time.Hour, "four"}} {
		name := log.Name([]byte(e.has))
		if err := log.Put(ctx, name, []byte(e.has)); err != nil {
			t.Fatal(err)
		}
		h := head{Format: format, Time: now.Add(-e.age), Base: e.base, Put: map[string]file{"files/a": {Contents: []string{name}}}}
		if err := log.Append(ctx, uint64(i+1), h, bytes.NewReader(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what     string
		do       func() error
		entries  []uint64
		contents int
	}{
		{"the state of 30 days ago needs the first snapshot", func() error { return prune(ctx, log, now.Add(-30*day)) }, []uint64{1, 2, 3, 4}, 3},
		{"that of 5 days ago the second", func() error { return prune(ctx, log, now.Add(-5*day)) }, []uint64{3, 4}, 2},
		{"nothing is left to delete", func() error { return prune(ctx, log, now.Add(-5*day)) }, []uint64{3, 4}, 2},
		{"a tenant that was deleted", func() error { return erase(ctx, log) }, nil, 0},
		{"an empty log", func() error { return prune(ctx, log, now) }, nil, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if entries, contents := left(t, log); !slices.Equal(entries, step.entries) || contents != step.contents {
			t.Errorf("%s: left are the entries %v and %d contents", step.what, entries, contents)
		}
	}
}
