package stream_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

func open(t *testing.T, cfg stream.Config) *stream.Store { return openFor(t, "alice", cfg) }

func openFor(t *testing.T, tenant string, cfg stream.Config) *stream.Store {
	t.Helper()
	var err error
	if cfg.Cipher, err = sealed.New(bytes.Repeat([]byte{1}, 32), tenant); err != nil {
		t.Fatal(err)
	}
	return stream.New(cfg)
}

func id(n int) string { return fmt.Sprintf("%s%c%c", strings.Repeat("A", 24), 'A'+n/26, 'A'+n%26) }

func put(t *testing.T, s *stream.Store, connection, of, data string) {
	t.Helper()
	if err := s.Put(stream.Answer{Connection: connection, Stream: of, Index: 3, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func missing(t *testing.T, s *stream.Store, connection, of string) {
	t.Helper()
	if a, err := s.Find(connection, of); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%s %s: %q %v", connection, of, a.Data, err)
	}
}

func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		fi, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		n += fi.Size()
	}
	return n
}

// Another Store of the directory is another process, or the same one after a restart.
func TestAnswersSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	put(t, open(t, stream.Config{Dir: dir}), id(1), "s", "first")
	put(t, open(t, stream.Config{Dir: dir}), id(1), "other", "second")
	s := open(t, stream.Config{Dir: dir})
	got, err := s.Find(id(1), "s")
	if diff := cmp.Diff(stream.Answer{Connection: id(1), Stream: "s", Index: 3, Data: []byte("first")}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	missing(t, s, id(1), "x")
	missing(t, s, id(2), "s")
	if err := s.Forget(id(1)); err != nil {
		t.Error(err)
	}
	missing(t, s, id(1), "s")
}

func TestAnswersAreEncryptedForTenantAndConnection(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	put(t, open(t, stream.Config{Dir: dir}), id(1), "s", "a secret text")
	b, err := os.ReadFile(filepath.Join(dir, id(1)))
	if err != nil || bytes.Contains(b, []byte("secret")) || bytes.Contains(b, []byte("stream")) {
		t.Errorf("%q %v", b, err)
	}
	missing(t, openFor(t, "bob", stream.Config{Dir: dir}), id(1), "s")
	if err := os.Rename(filepath.Join(dir, id(1)), filepath.Join(dir, id(2))); err != nil {
		t.Fatal(err)
	}
	missing(t, open(t, stream.Config{Dir: dir}), id(2), "s")
}

func TestIDsAreNoPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	s := open(t, stream.Config{Dir: dir})
	for _, bad := range []string{"", "..", "../../etc/passwd", id(1) + "/x", id(1) + ".1", strings.ToLower(id(1)),
		strings.Repeat("A", 1<<20)} {
		if err := s.Put(stream.Answer{Connection: bad, Stream: "s"}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.40q: %v", bad, err)
		}
		missing(t, s, bad, "s")
		if err := s.Forget(bad); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was created")
	}
}

// A crash leaves an incomplete record; a change makes one that cannot be decrypted. The
// answers before it are found.
func TestDamagedFileHasTheAnswersBeforeTheDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	s := open(t, stream.Config{Dir: dir})
	put(t, s, id(1), "first", "1")
	first := size(t, dir)
	put(t, s, id(1), "second", "2")
	whole, err := os.ReadFile(filepath.Join(dir, id(1)))
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"torn":    whole[:len(whole)-1],
		"length":  append(bytes.Clone(whole[:first]), 0xff, 0xff, 0xff, 0xff),
		"changed": append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, id(1)), b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Find(id(1), "first"); err != nil {
				t.Error(err)
			}
			missing(t, s, id(1), "second")
		})
	}
}

func TestAnswersOfAConnectionAreBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	s := open(t, stream.Config{Dir: dir, Connection: 10_000})
	for i := range 100 {
		put(t, s, id(1), fmt.Sprint(i), strings.Repeat("x", 1000))
		if n := size(t, dir); n > 10_000 {
			t.Fatalf("%d bytes", n)
		}
	}
	for _, of := range []string{"99", "96"} {
		if _, err := s.Find(id(1), of); err != nil {
			t.Error(err)
		}
	}
	missing(t, s, id(1), "50")
	if err := s.Put(stream.Answer{Connection: id(1), Stream: "large", Data: make([]byte, 5000)}); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	if _, err := s.Find(id(1), "99"); err != nil {
		t.Error(err)
	}
}

func TestAnswersOfATenantAreBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	stores := []*stream.Store{open(t, stream.Config{Dir: dir, MaxBytes: 20_000}), open(t, stream.Config{Dir: dir, MaxBytes: 20_000})}
	for i := range 100 {
		put(t, stores[i%2], id(i), "s", strings.Repeat("x", 1000))
		if n := size(t, dir); n > 2*20_000 { // each process counts what it writes
			t.Fatalf("%d bytes", n)
		}
	}
	if _, err := stores[0].Find(id(99), "s"); err != nil {
		t.Error(err)
	}
	missing(t, stores[0], id(0), "s")
}

func TestAnswersExpire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	now := time.Now()
	s := open(t, stream.Config{Dir: dir, Keep: time.Minute, Now: func() time.Time { return now }})
	put(t, s, id(1), "s", "x")
	now = now.Add(59 * time.Second)
	if _, err := s.Find(id(1), "s"); err != nil {
		t.Error(err)
	}
	now = now.Add(2 * time.Second)
	missing(t, s, id(1), "s")
	if err := stream.Sweep(dir, time.Minute); err != nil || size(t, dir) == 0 {
		t.Error("a file that is not old was deleted", err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, id(1)), old, old); err != nil {
		t.Fatal(err)
	}
	if err := stream.Sweep(dir, time.Minute); err != nil || size(t, dir) != 0 {
		t.Error(err, size(t, dir))
	}
	if err := stream.Sweep(filepath.Join(dir, "absent"), 0); err != nil {
		t.Error(err)
	}
}

func TestConcurrentAnswersAreAllKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	stores := []*stream.Store{open(t, stream.Config{Dir: dir}), open(t, stream.Config{Dir: dir})}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if err := stores[i%2].Put(stream.Answer{Connection: id(i % 3), Stream: fmt.Sprint(i), Data: []byte("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 200 {
		if _, err := stores[0].Find(id(i%3), fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
}

func TestNothingIsWrittenToANearlyFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "streams")
	s := open(t, stream.Config{Dir: dir, CheckDisk: func(int64) error { return fault.New(fault.Exhausted, "full") }})
	if err := s.Put(stream.Answer{Connection: id(1), Stream: "s", Data: []byte("x")}); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was created")
	}
}
