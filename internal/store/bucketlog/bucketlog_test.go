package bucketlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
)

type head struct{ Text string }

func bucket(t *testing.T) (blob.Bucket, string) {
	t.Helper()
	dir := t.TempDir()
	b, err := blob.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, dir
}

func newLog(t *testing.T, b blob.Bucket, name string, key byte) *bucketlog.Log {
	t.Helper()
	l, err := bucketlog.New(b, name, bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendText(t *testing.T, l *bucketlog.Log, n uint64, text string) error {
	return l.Append(t.Context(), n, head{fmt.Sprint("head of ", text)}, strings.NewReader(text))
}

func read(t *testing.T, l *bucketlog.Log, n uint64) (string, error) {
	e, err := l.Open(t.Context(), n)
	if err != nil {
		return "", err
	}
	defer e.Close()
	var h head
	if err := e.Head(&h); err != nil {
		return "", err
	}
	body, err := io.ReadAll(e)
	return h.Text + ": " + string(body), err
}

func TestEntries(t *testing.T) {
	b, _ := bucket(t)
	l, other := newLog(t, b, "acme", 1), newLog(t, b, "acme2", 1)
	large := strings.Repeat("0123456789", 300_000)
	texts := []string{"one", "", large}
	for i, text := range texts {
		if err := appendText(t, l, uint64(i+1), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := appendText(t, l, 2, "late"); !errors.Is(err, bucketlog.ErrTaken) {
		t.Errorf("an entry was created twice: %v", err)
	}
	for i, text := range texts {
		if got, err := read(t, l, uint64(i+1)); err != nil || got != "head of "+text+": "+text {
			t.Errorf("entry %d is %.80q, %v", i+1, got, err)
		}
	}
	if _, err := read(t, l, 4); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a missing entry: %v", err)
	}
	var numbers []uint64
	for n, err := range l.Numbers(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n.N)
	}
	if !slices.Equal(numbers, []uint64{2, 3}) {
		t.Errorf("the numbers after 1 are %v", numbers)
	}
	for range other.Numbers(t.Context(), 0) {
		t.Error("another log has an entry")
	}
}

// Of several writers of one number one succeeds, and the others are told.
func TestWritersOfOneNumber(t *testing.T) {
	b, _ := bucket(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		l := newLog(t, b, "acme", 1)
		wg.Go(func() { errs[i] = appendText(t, l, 1, fmt.Sprint(i)) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			if got, err := read(t, newLog(t, b, "acme", 1), 1); err != nil || !strings.HasSuffix(got, fmt.Sprint(": ", i)) {
				t.Errorf("writer %d succeeded, and the entry is %q, %v", i, got, err)
			}
		case !errors.Is(err, bucketlog.ErrTaken):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers succeeded", won)
	}
}

// lost is a bucket whose first answers to creates are lost, after or before the object is created.
type lost struct {
	blob.Bucket
	answers int
	created bool
}

func (b *lost) Create(ctx context.Context, key string, body io.Reader) error {
	b.answers--
	if b.answers < 0 {
		return b.Bucket.Create(ctx, key, body)
	}
	if b.created {
		if err := b.Bucket.Create(ctx, key, body); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Unavailable, blob.ErrUnknown, "the answer was lost")
}

func TestLostAnswers(t *testing.T) {
	for _, created := range []bool{true, false} {
		b, _ := bucket(t)
		l := newLog(t, &lost{b, 1, created}, "acme", 1)
		if err := appendText(t, l, 1, "one"); err != nil {
			t.Errorf("created %v: %v", created, err)
		}
		if got, err := read(t, l, 1); err != nil || got != "head of one: one" {
			t.Errorf("created %v: %q, %v", created, got, err)
		}
		l = newLog(t, &lost{b, 1, false}, "acme", 1)
		if err := appendText(t, l, 1, "two"); !errors.Is(err, bucketlog.ErrTaken) {
			t.Errorf("created %v: another writer was not noticed: %v", created, err)
		}
	}
	b, _ := bucket(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newLog(t, &lost{b, 99, false}, "acme", 1).Append(ctx, 1, head{}, strings.NewReader("")); !errors.Is(err, blob.ErrUnknown) {
		t.Errorf("the outcome is not known, and the error is %v", err)
	}
}

func TestContents(t *testing.T) {
	b, dir := bucket(t)
	l := newLog(t, b, "acme", 1)
	content := []byte("some content")
	name := l.Name(content)
	for range 2 {
		if err := l.Put(t.Context(), name, content); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.Get(t.Context(), name); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
	var names []string
	for name, err := range l.Contents(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if !slices.Equal(names, []string{name}) {
		t.Errorf("the contents are %q", names)
	}
	if other := newLog(t, b, "other", 1).Name(content); other == name {
		t.Error("two logs have the same name for a content")
	}
	stored, err := os.ReadFile(filepath.Join(dir, "b", "acme", name))
	if err != nil || bytes.Contains(stored, content) {
		t.Errorf("the content is not encrypted: %v", err)
	}
	if err := l.Drop(t.Context(), name); err != nil {
		t.Error(err)
	}
	if _, err := l.Get(t.Context(), name); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a content that was deleted: %v", err)
	}
}

// What an owner of the bucket changes is not read.
func TestChangedObjects(t *testing.T) {
	b, dir := bucket(t)
	l := newLog(t, b, "acme", 1)
	text := strings.Repeat("a", 200_000)
	for n := range uint64(2) {
		if err := appendText(t, l, n+1, text); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "t", "acme", fmt.Sprintf("%016x", 1))
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(stored)
	altered[len(altered)/2] ^= 1
	second, err := os.ReadFile(filepath.Join(dir, "t", "acme", fmt.Sprintf("%016x", 2)))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty":           {},
		"cut in its head": stored[:100],
		"cut":             stored[:len(stored)-1],
		"cut by a chunk":  stored[:len(stored)-(200_000%(64<<10))],
		"altered":         altered,
		"another entry":   second,
		"longer":          append(bytes.Clone(stored), 0),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, l, 1); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
	if _, err := read(t, newLog(t, b, "acme", 2), 2); err == nil || !strings.Contains(fault.Message(err), "another master key") {
		t.Errorf("another key: %v", err)
	}
}
