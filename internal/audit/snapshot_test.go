package audit_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// A snapshot that is taken while lines are added is a complete log, and can be continued.
func TestSnapshotDuringWritesIsIntact(t *testing.T) {
	longtest.SkipSlow(t)
	cfg := config(t)
	cfg.MaxBytes = 4000
	l, other := open(t, cfg), open(t, cfg) // as of two processes
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := l.Append(t.Context(), call(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 20 {
		if err := other.Append(t.Context(), call("before")); err != nil {
			t.Fatal(err)
		}
		s, err := other.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		to := audit.Config{Dir: filepath.Join(t.TempDir(), "audit"), Key: cfg.Key}
		if err := os.Mkdir(to.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range s.Files {
			b, err := io.ReadAll(f.Content)
			if err == nil {
				err = os.WriteFile(filepath.Join(to.Dir, f.Name), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		r := verify(t, to)
		if r.Problem != nil || r.Torn != 0 || r.Lines == 0 {
			t.Fatalf("%+v %+v", r, r.Problem)
		}
		write(t, to, 1)
		good(t, to, r.Lines+1)
	}
	close(stop)
	all.Wait()
}
