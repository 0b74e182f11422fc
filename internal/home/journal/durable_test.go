package journal_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// databaseOfKilled is the environment variable with the database of the process that
// TestKillLosesNoEnd starts.
const databaseOfKilled = "JOURNAL_TEST_DATABASE"

// TestRecordUntilKilled is the process that TestKillLosesNoEnd starts.
func TestRecordUntilKilled(t *testing.T) {
	path := os.Getenv(databaseOfKilled)
	if path == "" {
		t.Skip("TestKillLosesNoEnd starts it")
	}
	l := open(t, path, 0)
	for n := 1; ; n++ {
		id, err := l.Begin(t.Context(), call(n))
		if err == nil {
			err = l.Done(t.Context(), id, journal.Answered)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ended", id)
	}
}

func TestKillLosesNoEnd(t *testing.T) {
	for _, calls := range []int{1, 2, 30} {
		path := filepath.Join(t.TempDir(), "t.db")
		last := recordUntilKilled(t, path, calls)
		entries, err := open(t, path, 0).List(t.Context(), 10_000)
		if err != nil || last < int64(calls) || int64(len(entries)) < last {
			t.Fatalf("%d calls ended and %d are recorded, %v", last, len(entries), err)
		}
		for _, e := range entries {
			if e.ID <= last && e.Outcome != journal.Answered {
				t.Errorf("killed after call %d: the end of call %d is lost", last, e.ID)
			}
		}
	}
}

// recordUntilKilled starts a process that records calls, kills it when some have ended, and
// returns the last call whose end it has acknowledged.
func recordUntilKilled(t *testing.T, path string, calls int) (last int64) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run", "^TestRecordUntilKilled$")
	c.Env = append(os.Environ(), databaseOfKilled+"="+path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); { // also those that it wrote before it was killed
		if _, err := fmt.Sscanf(lines.Text(), "ended %d", &last); err != nil {
			t.Errorf("%q: %v", lines.Text(), err)
		}
		if last == int64(calls) {
			_ = c.Process.Kill()
		}
	}
	_ = c.Wait()
	return last
}
