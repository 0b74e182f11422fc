package blobtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

// listed returns the number of objects of testList: in slow tests more than two pages of each store, which have 1,000.
func (s Setup) listed() int {
	switch {
	case s.Listed > 0:
		return s.Listed
	case longtest.Slow():
		return 2500
	}
	return 250
}

// testList lists objects of which several are in each page, by prefix and after a key, as soon as they are created.
func testList(t *testing.T, setup Setup) {
	url := setup.URL(t)
	b, other := open(t, url), open(t, url)
	var want []string
	for i := range setup.listed() { // "-" and "." are before "/", "=" and letters after it
		format := []string{"log/%05d", "log-%d", "log/a/%d", "log.%d", "log=%d", "log/a.%d"}[i%6]
		want = append(want, fmt.Sprintf(format, i))
	}
	var g errgroup.Group
	g.SetLimit(creators)
	for _, key := range want {
		g.Go(func() error { return b.Create(t.Context(), key, strings.NewReader(key)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	for _, c := range []struct{ prefix, after string }{
		{"", ""}, {"log/", ""}, {"log/a", ""}, {"log/0000", ""}, {"log", "log/a"},
		{"log/", want[len(want)/2]}, {"", want[len(want)-99]}, {"", want[len(want)-1]},
		{"log/", "log-"}, {"log-", "log/"}, {"none", ""}, {want[7], ""}, {"log/0", "log/00001x"},
	} {
		var expected []string
		for _, key := range want {
			if strings.HasPrefix(key, c.prefix) && key > c.after {
				expected = append(expected, key)
			}
		}
		if got := keys(t, other, c.prefix, c.after); !slices.Equal(got, expected) {
			t.Errorf("list %q after %q: %d keys, want %d", c.prefix, c.after, len(got), len(expected))
		}
	}
	for o, err := range other.List(t.Context(), "log", "") { // and stop
		if err != nil || o.Size != int64(len(o.Key)) || time.Since(o.Time).Abs() > time.Hour {
			t.Errorf("%+v %v", o, err)
		}
		break
	}
}

func testRanges(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	whole := []byte("0123456789")
	create(t, b, "ten", whole)
	for _, c := range []struct {
		r    blob.Range
		want string
	}{
		{blob.Range{}, "0123456789"},
		{blob.Range{End: 1}, "0"},
		{blob.Range{Begin: 3, End: 6}, "345"},
		{blob.Range{Begin: 9}, "9"},
		{blob.Range{Begin: 9, End: 10}, "9"},
		{blob.Range{Begin: 4}, "456789"},
		{blob.Range{Begin: 8, End: 100}, "89"},
		{blob.Range{Begin: 10}, ""},
		{blob.Range{Begin: 100}, ""},
		{blob.Range{Begin: 100, End: 200}, ""},
		{blob.Range{Begin: 5, End: 5}, ""},
		{blob.Range{Begin: 5, End: 2}, ""},
	} {
		o, got := get(t, b, "ten", c.r)
		if string(got) != c.want || o.Size != 10 || o.Key != "ten" {
			t.Errorf("%+v: %q of %+v, want %q", c.r, got, o, c.want)
		}
	}
	for _, r := range []blob.Range{{Begin: -1}, {End: -1}} {
		_, err := b.Get(t.Context(), "ten", r)
		wantKind(t, fmt.Sprint(r), err, fault.Invalid)
	}
	for _, r := range []blob.Range{{}, {Begin: 5}, {Begin: 5, End: 5}} {
		_, err := b.Get(t.Context(), "eleven", r)
		wantKind(t, fmt.Sprint("an object that does not exist, ", r), err, fault.NotFound)
	}
}

func testEmpty(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	create(t, b, "empty", nil)
	wantExists(t, "again", b.Create(t.Context(), "empty", strings.NewReader("x")))
	for _, r := range []blob.Range{{}, {Begin: 1}, {End: 1}, {Begin: 3, End: 3}} {
		if o, got := get(t, b, "empty", r); len(got) != 0 || o.Size != 0 {
			t.Errorf("%+v: %q of %+v", r, got, o)
		}
	}
	if got := keys(t, b, "", ""); len(got) != 1 {
		t.Errorf("%q are listed", got)
	}
}

func testKeys(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	element := strings.Repeat("a", 249) + "-"
	long := strings.Join([]string{element, element, element, element}, "/")[:1000]
	for _, key := range []string{long, "a", "0", "_-=", "a.b.c", "t/x.y/00000000000000000001", strings.Repeat("b", 255), "a-/b=c/d_"} {
		create(t, b, key, []byte(key))
		if _, got := get(t, b, key, blob.Range{}); string(got) != key {
			t.Errorf("%q has %q", key, got)
		}
		if got := keys(t, b, key, ""); !slices.Contains(got, key) {
			t.Errorf("%q is not listed: %q", key, got)
		}
	}
	for _, key := range []string{
		"", long + "a", strings.Repeat("b", 256), "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", ".hidden", "a.", "a./b",
		"A", "é", "日本", "a b", "a\\b", "a\nb", "a\x00", "\xff", "a%2fb", "a?b", "a#b", "a:b", "a*", "~", "a+b", "c:/d",
	} {
		err := b.Create(t.Context(), key, strings.NewReader("x"))
		wantKind(t, fmt.Sprintf("create %.20q", key), err, fault.Invalid)
		_, err = b.Get(t.Context(), key, blob.Range{})
		wantKind(t, fmt.Sprintf("get %.20q", key), err, fault.Invalid)
		wantKind(t, fmt.Sprintf("delete %.20q", key), b.Delete(t.Context(), key), fault.Invalid)
	}
	if got := len(keys(t, b, "", "")); got != 8 {
		t.Errorf("%d objects are listed, want 8", got)
	}
}

// large is the size of the object of testLarge; it does not end with a part.
const large = 64<<20 + 12345

// bound is the memory that an operation with a large object may use: a few parts.
const bound = 40 << 20

// testLarge creates an object of several parts, and one of exactly two, with memory for a few parts.
func testLarge(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	createAndRead(t, b, "large", large)
	createAndRead(t, b, "two", 16<<20)
	createAndRead(t, b, "one", 8<<20)
	wantExists(t, "again", b.Create(t.Context(), "large", body("other", 17<<20)))
	for _, r := range []blob.Range{{Begin: 8<<20 - 5, End: 8<<20 + 5}, {Begin: 30 << 20, End: 47 << 20}, {Begin: 64 << 20},
		{Begin: large}} {
		end := r.End
		if end == 0 {
			end = large
		}
		want := body("large", end)
		if _, err := io.CopyN(io.Discard, want, r.Begin); err != nil {
			t.Fatal(err)
		}
		o, got := get(t, b, "large", r)
		if err := compare(want, bytes.NewReader(got)); err != nil || o.Size != large {
			t.Errorf("%+v of %+v: %v", r, o, err)
		}
	}
	if err := b.Delete(t.Context(), "large"); err != nil {
		t.Error(err)
	}
	if got := keys(t, b, "", ""); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q are listed", got)
	}
}

func testHuge(t *testing.T, setup Setup) {
	longtest.Skip(t)
	size := setup.Huge
	if os.Getenv("HUGE_OBJECTS") != "" && !setup.InMemory {
		size = 5 << 30
	}
	if size == 0 {
		t.Skip("set HUGE_OBJECTS=1 to create an object of 5 GiB")
	}
	b := open(t, setup.URL(t))
	createAndRead(t, b, "huge", size)
	if err := b.Delete(t.Context(), "huge"); err != nil {
		t.Error(err)
	}
}

// createAndRead creates an object and reads it back, and fails the test if that takes much memory.
func createAndRead(t *testing.T, b blob.Bucket, key string, size int64) {
	t.Helper()
	stop := watchMemory(t, key)
	defer stop()
	if err := b.Create(t.Context(), key, body(key, size)); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), key, blob.Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Size != size {
		t.Errorf("%q has %d bytes, want %d", key, r.Size, size)
	}
	check(t, key, size, r)
}

// watchMemory fails the test if the heap grows above the bound until stop is called.
func watchMemory(t *testing.T, what string) (stop func()) {
	percent := debug.SetGCPercent(10)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	done, ended := make(chan struct{}), make(chan struct{})
	var most uint64
	go func() {
		defer close(ended)
		for {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		debug.SetGCPercent(percent)
		if most > before.HeapAlloc+bound {
			t.Errorf("%q took %d MiB of memory", what, (most-before.HeapAlloc)>>20)
		}
	}
}

// testBodyFails creates nothing of a body that cannot be read to its end.
func testBodyFails(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	failure := errors.New("failure of the body")
	for _, size := range []int64{0, 100, 9 << 20, 16 << 20} {
		key := fmt.Sprintf("fails/%d", size)
		err := b.Create(t.Context(), key, io.MultiReader(body(key, size), &failing{failure}))
		if !errors.Is(err, failure) || errors.Is(err, blob.ErrUnknown) {
			t.Errorf("after %d bytes: %v", size, err)
		}
	}
	if got := keys(t, b, "", ""); len(got) > 0 {
		t.Errorf("%q are listed", got)
	}
	create(t, b, "fails/100", []byte("good"))
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func testDelete(t *testing.T, setup Setup) {
	b := open(t, setup.URL(t))
	for _, key := range []string{"none", "no/such/object"} {
		if err := b.Delete(t.Context(), key); err != nil {
			t.Errorf("delete what is not there: %v", err)
		}
	}
	for range 2 {
		create(t, b, "d/one", []byte("1"))
		create(t, b, "d/two", []byte("2"))
		if err := b.Delete(t.Context(), "d/one"); err != nil {
			t.Fatal(err)
		}
		if got := keys(t, b, "", ""); !slices.Equal(got, []string{"d/two"}) {
			t.Errorf("%q are listed", got)
		}
		_, err := b.Get(t.Context(), "d/one", blob.Range{})
		wantKind(t, "get what was deleted", err, fault.NotFound)
		for range 2 {
			if err := b.Delete(t.Context(), "d/two"); err != nil {
				t.Errorf("delete twice: %v", err)
			}
		}
	}
}
