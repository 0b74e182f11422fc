package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// logs returns the logs of calls in a directory.
func logs(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "t.db-calls-*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// rowsOf returns the numbers of entries, records and host calls that are in the database.
func rowsOf(t testing.TB, d daemon) (n [3]int) {
	t.Helper()
	db, err := store.Open(t.Context(), d.path, []store.Migration{{Number: 1, Name: "journal", SQL: journal.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM journal_calls), (SELECT count(*) FROM runs), (SELECT "+
			"count(*) FROM run_events)").
			Scan(&n[0], &n[1], &n[2])
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// An execution with a call makes no commit of its own, and no file has its record when it has completed and the
// log of calls was stored.
func TestCompletedExecutionLeavesEntriesOnly(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir)
	for i := range 50 {
		r := d.NewRecord(fmt.Sprint("exec_", i), nothing, false)
		read(t, r, ask("look", `{}`), "1")
		write(t, r, ask("send", `{}`), "2")
		if err := r.End(t.Context(), journal.End{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(logs(t, dir)); n != 1 {
		t.Errorf("%d logs of calls", n)
	}
	if err := d.Log.Close(); err != nil {
		t.Fatal(err)
	}
	if n := rowsOf(t, d); n != [3]int{50, 0, 0} || len(logs(t, dir)) != 0 {
		t.Errorf("%v rows, and the logs %q", n, logs(t, dir))
	}
}

// The lines are stored in the database a short time after a call, although nothing is read.
func TestLinesAreStoredWhileIdle(t *testing.T) {
	d := start(t, t.TempDir())
	write(t, d.NewRecord("exec_1", nothing, false), ask("send", `{}`), "1")
	for end := time.Now().Add(time.Minute); rowsOf(t, d) != [3]int{1, 1, 1}; {
		if time.Now().After(end) {
			t.Fatal("nothing is in the database")
		}
	}
}

// A call that is in the database when it ends, a step, and a record that another process takes over: the
// lines before and after a commit give the same as all in one.
func TestLinesInSeveralCommits(t *testing.T) {
	for _, often := range []bool{false, true} {
		dir := t.TempDir()
		first, other := start(t, dir), start(t, dir)
		stored := func() {
			if !often {
				return
			}
			if _, err := other.ListUnfinished(t.Context()); err != nil { // another process stores the lines
				t.Fatal(err)
			}
		}
		r := first.NewRecord("exec_1", nothing, false)
		runStep(t, r, 0, "pay", 1, "5", func(step int) {
			n := begin(t, r, in(step, ask("send", `{"n":1}`)))
			stored()
			v := value("1")
			if err := r.Done(t.Context(), n, journal.Answered, &v); err != nil {
				t.Fatal(err)
			}
			stored()
		})
		write(t, r, ask("send", `{"n":2}`), "2")
		stored()
		begin(t, r, ask("send", `{"n":3}`))
		stored()
		first.Process.Close()
		r = resume(t, other, "exec_1")
		skips(t, r, 0, "pay", 1, "5")
		gives(t, r, ask("send", `{"n":2}`), "2")
		if c := next(t, r, ask("send", `{"n":3}`)); !c.Begun || c.Answer != nil {
			t.Errorf("stored often %t: the last call is %+v", often, c)
		}
		entries, err := other.List(t.Context(), 10)
		if err != nil || len(entries) != 3 || entries[0].Outcome != journal.Unknown || entries[1].Outcome != journal.Answered ||
			entries[2].Outcome != journal.Answered {
			t.Errorf("stored often %t: %+v, %v", often, entries, err)
		}
		if n := rowsOf(t, other); n != [3]int{3, 1, 3} {
			t.Errorf("stored often %t: %v rows", often, n)
		}
	}
}

// The lines of a process are stored once, although it was killed before it could forget them.
func TestLinesAreStoredOnce(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	write(t, first.NewRecord("exec_1", nothing, false), ask("send", `{}`), "1")
	file := logs(t, dir)[0]
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Log.Close(), first.Process.Close(), os.WriteFile(file, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	second := start(t, dir)
	entries, err := second.List(t.Context(), 10)
	if err != nil || len(entries) != 1 || len(logs(t, dir)) != 0 {
		t.Errorf("%+v, %v, the logs %q", entries, err, logs(t, dir))
	}
	gives(t, resume(t, second, "exec_1"), ask("send", `{}`), "1")
}

// Lines of several files, of which some are in the database, are a whole record.
func TestLargeRecordsAreInSeveralLogs(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, false)
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	for i := range 30 {
		write(t, r, ask("send", fmt.Sprint(i)), large)
	}
	first.Process.Close()
	second := start(t, dir)
	again := resume(t, second, "exec_1")
	for i := range 30 {
		gives(t, again, ask("send", fmt.Sprint(i)), large)
	}
	if err := first.Log.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := second.List(t.Context(), 100); err != nil || len(entries) != 30 || len(logs(t, dir)) != 0 {
		t.Errorf("%d entries, %v, the logs %q", len(entries), err, logs(t, dir))
	}
}

// What precedes a damaged line is stored, and the file is kept.
func TestDamagedLogIsKept(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	var sizes []int64
	for i := range 3 {
		if _, err := first.Begin(t.Context(), call(i)); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(logs(t, dir)[0])
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, int64(len(strings.TrimRight(string(b), "\x00"))))
	}
	lost := t.TempDir()
	if err := os.CopyFS(lost, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(logs(t, lost)[0], os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{0xff}, sizes[0]+50)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	second := start(t, lost)
	for range 2 {
		if entries, err := second.List(t.Context(), 10); err != nil || len(entries) != 1 || len(logs(t, lost)) != 0 {
			t.Errorf("%+v, %v, the logs %q", entries, err, logs(t, lost))
		}
	}
	if kept, err := filepath.Glob(filepath.Join(lost, "t.db-damaged-*")); len(kept) != 1 {
		t.Errorf("kept %q, %v", kept, err)
	}
}

const directoryOfKilled = "JOURNAL_TEST_DIRECTORY"

// TestExecuteUntilKilled is the process that TestKilledProcessesLoseNothing starts. It prints each fact
// before the next one depends on it.
func TestExecuteUntilKilled(t *testing.T) {
	dir := os.Getenv(directoryOfKilled)
	if dir == "" {
		t.Skip("TestKilledProcessesLoseNothing starts it")
	}
	d := start(t, dir)
	for n := 0; ; n++ {
		id := fmt.Sprintf("exec_%d_%d", os.Getpid(), n)
		r := d.NewRecord(id, nothing, false)
		for i := range 3 {
			a := ask("send", fmt.Sprintf(`{"id":%q,"n":%d}`, id, i))
			c := next(t, r, a)
			if err := r.Begin(t.Context(), tool.Call{Ref: a.Ref, Execution: id, Args: a.Args, Number: c.Number}); err != nil {
				t.Fatal(err)
			}
			fmt.Println("began", id, i)
			v := value(fmt.Sprint(i))
			if err := r.Done(t.Context(), c.Number, journal.Answered, &v); err != nil {
				t.Fatal(err)
			}
			fmt.Println("done", id, i)
		}
		end := []journal.End{{}, {}, {State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "crashed"}}[n%3]
		if err := r.End(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ended", id, 3)
		if n%7 == 6 {
			if _, err := d.ListUnfinished(t.Context()); err != nil { // stores the lines of both processes
				t.Fatal(err)
			}
		}
	}
}

// fact is what a killed process had acknowledged of an execution.
type fact struct {
	began, done int
	ended       bool
}

// executeUntilKilled starts a process that records executions, kills it when it has printed some lines, and
// adds what it acknowledged.
func executeUntilKilled(t *testing.T, dir string, lines int, mu *sync.Mutex, facts map[string]fact) {
	c := exec.Command(os.Args[0], "-test.run", "^TestExecuteUntilKilled$")
	c.Env = append(os.Environ(), directoryOfKilled+"="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	printed := bufio.NewReader(out)
	for n := 1; ; n++ {
		line, err := printed.ReadString('\n')
		if err == io.EOF {
			break
		}
		var what, id string
		var i int
		if _, err := fmt.Sscan(line, &what, &id, &i); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		mu.Lock()
		f := facts[id]
		switch what {
		case "began":
			f.began = i + 1
		case "done":
			f.done = i + 1
		case "ended":
			f.ended = true
		default:
			t.Errorf("%q", line)
		}
		facts[id] = f
		mu.Unlock()
		if n == lines {
			_ = c.Process.Kill()
		}
	}
	_ = c.Wait()
}

// Whenever one or two processes on one directory are killed, no call that they had acknowledged is lost or
// recorded twice.
func TestKilledProcessesLoseNothing(t *testing.T) {
	rounds := 10
	if longtest.Enabled() {
		rounds = 100
	}
	for _, processes := range []int{1, 2} {
		dir := t.TempDir()
		var mu sync.Mutex
		facts := map[string]fact{}
		r := rand.New(rand.NewPCG(uint64(processes), 7))
		for range rounds {
			var wg sync.WaitGroup
			for range processes {
				lines := 1 + r.IntN(150)
				wg.Go(func() { executeUntilKilled(t, dir, lines, &mu, facts) })
			}
			wg.Wait()
			if r.IntN(2) == 0 {
				continue // the next processes find the logs of several
			}
			d := start(t, dir)
			checkFacts(t, d, facts)
			clear(facts)
			forgetAll(t, d)
			d.Process.Close()
		}
	}
}

// checkFacts compares the journal with what was acknowledged.
func checkFacts(t *testing.T, d daemon, facts map[string]fact) {
	t.Helper()
	entries, err := d.List(t.Context(), 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	all, answered := map[string]int{}, map[string]int{}
	for _, e := range entries {
		all[e.Execution]++
		if e.Outcome == journal.Answered {
			answered[e.Execution]++
		}
	}
	left, err := d.ListUnfinished(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range left {
		f := facts[u.Execution]
		if u.Answered < f.done || u.Answered+u.Unknown < f.began || u.Answered+u.Unknown > f.began+1 || f.ended && u.Reason != "crashed" {
			t.Errorf("the record %+v, of %+v", u, f)
		}
		checkRecord(t, d, u.Execution, f)
	}
	for id, f := range facts {
		var pid, n int
		if _, err := fmt.Sscanf(id, "exec_%d_%d", &pid, &n); err != nil {
			t.Fatal(err)
		}
		if kept := f.began > 0 && f.done < 3 || f.ended && n%3 == 2; kept && !slices.ContainsFunc(left,
			func(u journal.Unfinished) bool { return u.Execution == id }) {
			t.Errorf("%s has no record, of %+v", id, f)
		}
		if all[id] < f.began || all[id] > f.began+1 || answered[id] < f.done || answered[id] > f.began {
			t.Errorf("%s has %d entries, %d answered, of %+v", id, all[id], answered[id], f)
		}
	}
}

// checkRecord replays the record of an execution.
func checkRecord(t *testing.T, d daemon, id string, f fact) {
	t.Helper()
	r := resume(t, d, id)
	for i := range f.began {
		c := next(t, r, ask("send", fmt.Sprintf(`{"id":%q,"n":%d}`, id, i)))
		if i < f.done && (c.Answer == nil || string(c.Answer.Value) != fmt.Sprint(i)) || !c.Begun && c.Answer == nil {
			t.Errorf("call %d of %s is %+v, of %+v", i, id, c, f)
		}
	}
	if err := r.End(context.Background(), journal.End{}); err != nil {
		t.Error(err)
	}
}

// forgetAll deletes all entries, so that the next ones are few.
func forgetAll(t *testing.T, d daemon) {
	t.Helper()
	runSQL(t, d, "DELETE FROM journal_calls")
}

// BenchmarkExecution measures an execution with a call that writes, and one that is a step of code.
func BenchmarkExecution(b *testing.B) {
	d := start(b, b.TempDir())
	for n := 0; b.Loop(); n++ {
		r := d.NewRecord(fmt.Sprint("exec_", n), nothing, false)
		read(b, r, ask("look", `{"id":1}`), `{"name":"ann"}`)
		a := ask("send", `{"to":"ann"}`)
		c := next(b, r, a)
		if err := r.Begin(b.Context(), tool.Call{Ref: a.Ref, Execution: fmt.Sprint("exec_", n), Args: a.Args,
			Number: c.Number}); err != nil {
			b.Fatal(err)
		}
		v := value(`{"sent":true}`)
		if err := errors.Join(r.Done(b.Context(), c.Number, journal.Answered, &v), r.End(b.Context(), journal.End{})); err != nil {
			b.Fatal(err)
		}
	}
}
