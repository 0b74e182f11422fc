package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// size of all files of a log.
func size(t testing.TB, cfg audit.Config) (n int64) {
	t.Helper()
	for _, b := range read(t, cfg) {
		n += int64(len(b))
	}
	return n
}

// shortened is a log that has deleted its beginning and has several files left.
func shortened(t *testing.T) (audit.Config, audit.Report) {
	t.Helper()
	cfg := config(t)
	cfg.Retention.Bytes, cfg.MaxBytes = 6000, 1200
	for range 30 {
		write(t, cfg, 1)
	}
	r := verify(t, cfg)
	if r.Problem != nil || r.Retired == 0 || r.Files < 3 {
		t.Fatalf("want several files whose beginning is gone: %+v, %+v", r, r.Problem)
	}
	return cfg, r
}

func TestRetentionByBytes(t *testing.T) {
	cfg := config(t)
	cfg.Retention.Bytes = 20_000
	for i := range 60 {
		write(t, cfg, 5)
		if n := size(t, cfg); n > 20_000+20_000/4 {
			t.Fatalf("after %d writes the log has %d bytes", i+1, n)
		}
		if r := verify(t, cfg); r.Problem != nil || r.Retired+r.Lines != r.Seq {
			t.Fatalf("after %d writes: %+v, %+v", i+1, r, r.Problem)
		}
	}
	r := verify(t, cfg)
	if r.Retired < 200 || r.Lines < 20 {
		t.Errorf("%d lines are gone and %d there", r.Retired, r.Lines)
	}
	last := records(t, cfg, audit.TailOptions{Last: 1000})
	if last[0].Seq != r.Retired+1 {
		t.Errorf("the first line is %d, behind %d", last[0].Seq, r.Retired)
	}
}

func TestRetentionByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.Retention.Age = 80 * 24 * time.Hour
		l := open(t, cfg)
		for day := range 200 {
			if err := l.Append(t.Context(), call(fmt.Sprint(day))); err != nil {
				t.Fatal(err)
			}
			oldest := records(t, cfg, audit.TailOptions{Last: 1000})[0]
			if age := time.Since(oldest.Time); age > 95*24*time.Hour {
				t.Fatalf("on day %d there is a line of %s ago", day, age)
			}
			time.Sleep(24 * time.Hour)
		}
		r := verify(t, cfg)
		if r.Problem != nil || r.Retired < 100 || r.Lines < 80 {
			t.Errorf("got %+v, %+v", r, r.Problem)
		}
	})
}

func TestZeroRetentionDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t)
		cfg.MaxBytes = 1000
		for range 20 {
			write(t, cfg, 1)
			time.Sleep(1000 * time.Hour)
		}
		good(t, cfg, 20)
	})
}

func TestCrashDuringDeletionVerifies(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 1200
	write(t, cfg, 1)
	for range 20 {
		write(t, cfg, 1)
	}
	before := read(t, cfg)
	cfg.Retention.Bytes = 4000
	write(t, cfg, 1)
	after := read(t, cfg)
	gone := slices.DeleteFunc(before.names(), func(name string) bool { return after[name] != nil })
	if len(gone) < 2 {
		t.Fatalf("%d files were deleted", len(gone))
	}
	for _, name := range slices.Backward(gone) { // as if the crash had come ever earlier
		after[name] = before[name]
		put(t, cfg, after)
		if r := verify(t, cfg); r.Problem != nil {
			t.Errorf("%s is still there: %+v", name, r.Problem)
		}
	}
	write(t, cfg, 1)
	if r := verify(t, cfg); r.Problem != nil || r.Retired == 0 {
		t.Errorf("the next writer leaves it as it is: %+v, %+v", r, r.Problem)
	}
}

func TestRetentionStopsAtChangedFile(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 1200
	for range 20 {
		write(t, cfg, 1)
	}
	s := read(t, cfg)
	second := s.names()[1]
	s[second] = bytes.Replace(s[second], []byte(`"tool":"send"`), []byte(`"tool":"sent"`), 1)
	put(t, cfg, s)
	cfg.Retention.Bytes = 2000
	write(t, cfg, 1)
	if r := verify(t, cfg); r.Problem == nil || r.Problem.Kind != audit.Changed || r.Problem.File != second || r.Problem.Line != 1 {
		t.Errorf("got %+v, %+v", r, r.Problem)
	}
}

// reason reports whether a state still says why the whole has no beginning, if it
// has none. Without that the first line is already wrong.
func (s state) reason(whole state) bool {
	at := bytes.LastIndex(whole.text(), []byte(`"outcome":"retired"`))
	if at < 0 {
		return true
	}
	last, _, _ := bytes.Cut(whole.text()[at:], []byte("\n"))
	return bytes.Contains(s.text(), last)
}

func (s state) text() (all []byte) {
	for _, name := range s.names() {
		all = append(all, s[name]...)
	}
	return all
}

// missed fails unless Verify finds anything.
func missed(t *testing.T, cfg audit.Config) {
	t.Helper()
	if verify(t, cfg).Problem == nil {
		t.Error("a line that says why the beginning is gone is not missed")
	}
}

// eachLine does something to every line of a log in turn, and holds against it what
// Verify finds.
func eachLine(t *testing.T, cfg audit.Config, name string, do func(s state, all []line, i int) (hand, bool)) {
	t.Helper()
	whole := read(t, cfg)
	all := whole.lines()
	done := 0
	for i := range all {
		s := state{}
		for name, b := range whole {
			s[name] = bytes.Clone(b)
		}
		h, ok := do(s, all, i)
		if !ok {
			continue
		}
		done++
		put(t, cfg, s)
		if !s.reason(whole) {
			missed(t, cfg)
			continue
		}
		h.found(t, cfg, fmt.Sprintf("%s: %s, line %d", name, all[i].file, all[i].at+1))
	}
	put(t, cfg, whole)
	if done < len(all)-1 {
		t.Errorf("%s: only %d of %d lines", name, done, len(all))
	}
}

func TestVerifyFindsChangeOfAnyLine(t *testing.T) {
	longtest.SkipSlow(t)
	whole := config(t)
	whole.MaxBytes = 1200
	for range 14 {
		write(t, whole, 1)
	}
	cut, _ := shortened(t)
	for name, cfg := range map[string]audit.Config{"a whole log": whole, "one without its beginning": cut} {
		t.Run(name, func(t *testing.T) { everyLine(t, cfg) })
	}
}

func everyLine(t *testing.T, cfg audit.Config) {
	if n := len(files(t, cfg)); n < 3 {
		t.Fatalf("there are only %d files", n)
	}
	eachLine(t, cfg, "changed", func(s state, all []line, i int) (hand, bool) {
		parts := s.split(all[i].file)
		p := parts[all[i].at]
		p[len(p)/2] ^= 1
		s[all[i].file] = bytes.Join(parts, nil)
		return hand{all[i], audit.Changed}, true
	})
	eachLine(t, cfg, "dropped", func(s state, all []line, i int) (hand, bool) {
		s[all[i].file] = bytes.Join(slices.Delete(s.split(all[i].file), all[i].at, all[i].at+1), nil)
		if i == len(all)-1 {
			return hand{all[i], audit.Truncated}, false // the end has its own turn
		}
		return hand{s.from(all[i]), audit.Dropped}, true
	})
	eachLine(t, cfg, "twice", func(s state, all []line, i int) (hand, bool) {
		parts := s.split(all[i].file)
		s[all[i].file] = bytes.Join(slices.Insert(parts, all[i].at, bytes.Clone(parts[all[i].at])), nil)
		return hand{line{all[i].file, all[i].at + 1}, audit.Reordered}, true
	})
	eachLine(t, cfg, "cut off", func(s state, all []line, i int) (hand, bool) {
		s[all[i].file] = bytes.Join(s.split(all[i].file)[:all[i].at], nil)
		for _, name := range s.names() {
			if name > all[i].file {
				delete(s, name)
			}
		}
		return hand{all[i], audit.Truncated}, true
	})
	for by := range len(read(t, cfg).lines()) - 1 {
		everyPair(t, cfg, by+1)
	}
	everyFile(t, cfg)
}

// everyPair has each line change its place with the one that is so many behind.
func everyPair(t *testing.T, cfg audit.Config, by int) {
	whole := read(t, cfg)
	all := whole.lines()
	for i := range len(all) - by {
		s := state{}
		for name, b := range whole {
			s[name] = bytes.Clone(b)
		}
		a, b := all[i], all[i+by]
		one, other := bytes.Clone(s.split(a.file)[a.at]), bytes.Clone(s.split(b.file)[b.at])
		set := func(l line, text []byte) {
			parts := s.split(l.file)
			parts[l.at] = text
			s[l.file] = bytes.Join(parts, nil)
		}
		set(a, other)
		set(b, one)
		put(t, cfg, s)
		if !s.reason(whole) {
			missed(t, cfg)
			continue
		}
		hand{a, audit.Reordered}.found(t, cfg, fmt.Sprintf("%s:%d with %s:%d", a.file, a.at+1, b.file, b.at+1))
	}
	put(t, cfg, whole)
}

// everyFile is taken away, alone and with all before it.
func everyFile(t *testing.T, cfg audit.Config) {
	whole := read(t, cfg)
	names := whole.names()
	for i, name := range names[:len(names)-1] {
		for _, from := range []int{0, i} {
			for _, gone := range names[from : i+1] {
				if err := os.Remove(filepath.Join(cfg.Dir, gone)); err != nil {
					t.Fatal(err)
				}
			}
			if s := read(t, cfg); s.reason(whole) {
				hand{line{names[i+1], 0}, audit.Dropped}.found(t, cfg, "without "+name)
			} else {
				missed(t, cfg)
			}
			put(t, cfg, whole)
		}
	}
}

func TestForgedRetiredLineIsFound(t *testing.T) {
	cfg := config(t)
	l := open(t, cfg)
	for _, line := range []audit.Line{
		{Kind: audit.Recovery, Outcome: "retired", Through: 3, At: strings.Repeat("0", 64)},
		{Kind: audit.ToolCall, Through: 3},
		{Kind: audit.ToolCall, At: "x"},
	} {
		if err := l.Append(t.Context(), line); err == nil {
			t.Errorf("%+v is taken", line)
		}
	}
}
