package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

// creators is the number of clients that create an object at the same time.
const creators = 8

// rounds is how often they do.
const rounds = 30

type creator func(ctx context.Context, key string, body io.Reader) error

// testRaces creates each key by 8 clients at once: one succeeds, and the object is its.
func testRaces(t *testing.T, setup Setup) {
	url := setup.URL(t)
	race(t, url, rounds, func(b blob.Bucket) creator { return b.Create })
}

// testPartRaces is testRaces with the requests for large objects.
func testPartRaces(t *testing.T, setup Setup) {
	race(t, setup.URL(t), rounds/3, func(b blob.Bucket) creator {
		return b.(interface {
			CreateInParts(ctx context.Context, key string, body io.Reader) error
		}).CreateInParts
	})
}

func race(t *testing.T, url string, rounds int, create func(blob.Bucket) creator) {
	reader := open(t, url)
	var clients []creator
	for range creators {
		clients = append(clients, create(open(t, url)))
	}
	for round := range rounds {
		key := fmt.Sprintf("race/%d", round)
		errs := make([]error, creators)
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i, client := range clients {
			wg.Go(func() {
				<-begin
				errs[i] = client(t.Context(), key, strings.NewReader(fmt.Sprintf("creator %d", i)))
			})
		}
		close(begin)
		wg.Wait()
		var won []string
		for i, err := range errs {
			if err == nil {
				won = append(won, fmt.Sprintf("creator %d", i))
			} else {
				wantExists(t, key, err)
			}
		}
		if _, stored := get(t, reader, key, blob.Range{}); len(won) != 1 || string(stored) != won[0] {
			t.Errorf("%s: the object is of %q, and %q succeeded", key, stored, won)
		}
	}
}

// Variables of the process that is killed.
const (
	creatorURL  = "BLOBTEST_CREATOR_URL"
	creatorSize = "BLOBTEST_CREATOR_SIZE"
)

// Main runs the tests of a package, or is the process that testKilled kills. TestMain calls it.
func Main(m *testing.M) {
	if url := os.Getenv(creatorURL); url != "" {
		size, _ := strconv.ParseInt(os.Getenv(creatorSize), 10, 64)
		fmt.Fprintln(os.Stderr, createForever(url, size))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// createForever creates objects until it is killed, and prints the key of each.
func createForever(url string, size int64) error {
	b, err := blob.Open(context.Background(), url)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		key := fmt.Sprintf("killed/%d/%d", os.Getpid(), n)
		if err := b.Create(context.Background(), key, body(key, size)); err != nil {
			return err
		}
		fmt.Println(key)
	}
}

// kills is how many creators are killed.
const kills = 12

// testKilled kills processes that create objects. Every object that one has created is whole, and no other is listed, except
// the one that it was creating, whole too.
func testKilled(t *testing.T, setup Setup) {
	url := setup.URL(t)
	size := setup.KillSize
	if size == 0 {
		size = 300_000
	}
	created := map[string]bool{}
	for i := range kills {
		for _, key := range killedCreator(t, url, size, time.Duration(i)*7*time.Millisecond) {
			created[key] = true
		}
	}
	b, found := open(t, url), 0
	for o, err := range b.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		found++
		r, err := b.Get(t.Context(), o.Key, blob.Range{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, o.Key, int64(size), r)
		r.Close()
		delete(created, o.Key)
	}
	if len(created) > 0 || found < kills {
		t.Errorf("%d objects were found; %v were created and are gone", found, created)
	}
}

// killedCreator returns the keys that a process has created when it is killed, a while after the first.
func killedCreator(t *testing.T, url string, size int, after time.Duration) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	first := make(chan struct{})
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), creatorURL+"="+url, creatorSize+"="+strconv.Itoa(size))
	cmd.Stdout, cmd.Stderr = &signalWriter{w: &out, first: first}, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-first:
	case err := <-ended:
		t.Fatalf("the creator ended by itself: %v %s", err, stderr.String())
	case <-time.After(time.Minute):
		t.Error("the creator has created nothing within a minute")
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	if exit := (*exec.ExitError)(nil); !errors.As(<-ended, &exit) || exit.Exited() {
		t.Fatalf("the creator ended by itself: %s", stderr.String())
	}
	text := out.String()
	return strings.Fields(text[:strings.LastIndex(text, "\n")+1])
}

// signalWriter closes first at the first write.
type signalWriter struct {
	w     io.Writer
	first chan struct{}
	once  sync.Once
}

func (s *signalWriter) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.first) })
	return s.w.Write(p)
}
