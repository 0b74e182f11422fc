package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// state is all files of a log, by name.
type state map[string][]byte

func read(t testing.TB, cfg audit.Config) state {
	t.Helper()
	s := state{}
	for _, path := range append(files(t, cfg), filepath.Join(cfg.Dir, "head")) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s[filepath.Base(path)] = b
	}
	return s
}

// put makes the log what a state is.
func put(t testing.TB, cfg audit.Config, s state) {
	t.Helper()
	for _, path := range append(files(t, cfg), filepath.Join(cfg.Dir, "head")) {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for name, b := range s {
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// line is one line of a state.
type line struct {
	file string
	at   int // in the file, from 0
}

func (s state) lines() (all []line) {
	for _, name := range s.names() {
		for i := range bytes.Count(s[name], []byte("\n")) {
			all = append(all, line{name, i})
		}
	}
	return all
}

func (s state) names() (names []string) {
	for name := range s {
		if name != "head" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s state) split(name string) [][]byte { return bytes.SplitAfter(s[name], []byte("\n")) }

// hand is what somebody did to a log, and what Verify is to say of it.
type hand struct {
	first line // that is not as it was
	what  audit.ProblemKind
}

// ways to change a log. The lines are chosen by chance; last is the last of all.
var ways = map[string]func(r *rand.Rand, s state, all []line) hand{
	"a byte": func(r *rand.Rand, s state, all []line) hand {
		l := all[r.IntN(len(all)-1)]
		parts := s.split(l.file)
		i := r.IntN(len(parts[l.at]))
		parts[l.at][i] ^= byte(1 + r.IntN(255))
		s[l.file] = bytes.Join(parts, nil)
		return hand{l, audit.Changed}
	},
	"a byte that is gone": func(r *rand.Rand, s state, all []line) hand {
		l := all[r.IntN(len(all)-1)]
		parts := s.split(l.file)
		i := r.IntN(len(parts[l.at]))
		parts[l.at] = slices.Delete(parts[l.at], i, i+1)
		s[l.file] = bytes.Join(parts, nil)
		return hand{l, audit.Changed}
	},
	"a line that is gone": func(r *rand.Rand, s state, all []line) hand {
		l := all[r.IntN(len(all)-1)]
		s[l.file] = bytes.Join(slices.Delete(s.split(l.file), l.at, l.at+1), nil)
		return hand{s.from(l), audit.Dropped}
	},
	"a line twice": func(r *rand.Rand, s state, all []line) hand {
		l := all[r.IntN(len(all))]
		parts := s.split(l.file)
		s[l.file] = bytes.Join(slices.Insert(parts, l.at, parts[l.at]), nil)
		return hand{line{l.file, l.at + 1}, audit.Reordered}
	},
	"two lines that change places": func(r *rand.Rand, s state, all []line) hand {
		i := r.IntN(len(all) - 1)
		a, b := all[i], all[i+1+r.IntN(len(all)-i-1)]
		ofA := s.split(a.file)
		one := bytes.Clone(ofA[a.at])
		if a.file == b.file {
			ofA[a.at], ofA[b.at] = ofA[b.at], one
			s[a.file] = bytes.Join(ofA, nil)
			return hand{a, audit.Reordered}
		}
		ofB := s.split(b.file)
		ofA[a.at], ofB[b.at] = ofB[b.at], one
		s[a.file], s[b.file] = bytes.Join(ofA, nil), bytes.Join(ofB, nil)
		return hand{a, audit.Reordered}
	},
	"a file that is gone": func(r *rand.Rand, s state, all []line) hand {
		names := s.names()
		i := r.IntN(len(names) - 1)
		delete(s, names[i])
		return hand{line{names[i+1], 0}, audit.Dropped}
	},
	"the end": func(r *rand.Rand, s state, all []line) hand {
		l := all[r.IntN(len(all))]
		parts := s.split(l.file)
		s[l.file] = bytes.Join(parts[:l.at], nil)
		s[l.file] = append(s[l.file], parts[l.at][:r.IntN(len(parts[l.at]))]...)
		for _, name := range s.names() {
			if name > l.file {
				delete(s, name)
			}
		}
		return hand{l, audit.Truncated}
	},
}

// from is the place of a line, or the next where a line is.
func (s state) from(l line) line {
	if bytes.Count(s[l.file], []byte("\n")) > l.at {
		return l
	}
	names := s.names()
	for _, name := range names[slices.Index(names, l.file)+1:] {
		if len(s[name]) > 0 {
			return line{name, 0}
		}
	}
	return l
}

func TestVerifyFindsTamperingAfterLaterWrites(t *testing.T) {
	longtest.SkipSlow(t)
	for name, do := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range 25 {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				cfg := config(t)
				cfg.MaxBytes = 1000 + r.Int64N(3000)
				randomLog(t, r, cfg)
				s := read(t, cfg)
				h := do(r, s, s.lines())
				put(t, cfg, s)
				h.found(t, cfg, fmt.Sprint("seed ", seed))
				// Whoever writes next does not cover it up.
				write(t, cfg, 3)
				if verify(t, cfg).Problem == nil {
					t.Fatalf("seed %d: it is not found any more", seed)
				}
			}
		})
	}
}

// randomLog is of several files, as several processes write one after the other.
func randomLog(t *testing.T, r *rand.Rand, cfg audit.Config) {
	t.Helper()
	n := int64(0)
	for len(files(t, cfg)) < 3 {
		l := open(t, cfg)
		for range 1 + r.IntN(4) {
			for range r.IntN(4) {
				l.AppendLater(call(strings.Repeat("x", r.IntN(100))))
				n++
			}
			if err := l.Append(t.Context(), call("now")); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	good(t, cfg, n)
}

func (h hand) found(t *testing.T, cfg audit.Config, name string) {
	t.Helper()
	r := verify(t, cfg)
	if r.Problem == nil {
		t.Fatalf("%s: not found", name)
	}
	p := r.Problem
	if p.File != h.first.file || p.Line != int64(h.first.at+1) || p.Kind != h.what {
		t.Fatalf("%s: want %s in %s, line %d; got %+v", name, h.what, h.first.file, h.first.at+1, p)
	}
}

func TestVerifyFindsChangeOfAnyByte(t *testing.T) {
	longtest.SkipSlow(t)
	cfg := config(t)
	write(t, cfg, 2)
	s := read(t, cfg)
	for name, b := range s {
		for i := range b {
			for _, with := range []byte{b[i] ^ 1, '\n'} {
				if with == b[i] {
					continue
				}
				changed := bytes.Clone(b)
				changed[i] = with
				if err := os.WriteFile(filepath.Join(cfg.Dir, name), changed, 0o600); err != nil {
					t.Fatal(err)
				}
				if verify(t, cfg).Problem == nil {
					t.Errorf("%s: byte %d may be %q", name, i, with)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMissingHeadIsRecorded(t *testing.T) {
	for name, do := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"cut":     func(path string) error { return os.Truncate(path, 100) },
	} {
		cfg := config(t)
		cfg.MaxBytes = 1000
		write(t, cfg, 10)
		all := files(t, cfg)
		if err := os.Truncate(all[len(all)-1], 0); err != nil {
			t.Fatal(err)
		}
		if err := do(filepath.Join(cfg.Dir, "head")); err != nil {
			t.Fatal(err)
		}
		if p := verify(t, cfg).Problem; p == nil || p.Kind != audit.BadHead {
			t.Errorf("%s: %+v", name, p)
		}
		write(t, cfg, 3)
		if p := verify(t, cfg).Problem; p == nil || p.Kind != audit.BadHead {
			t.Errorf("%s, and more written: %+v", name, p)
		}
	}
}

func TestWrongKeyVerifiesNothing(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 3)
	other := cfg
	other.Key = bytes.Repeat([]byte("k"), 32)
	for range 2 {
		p := verify(t, other).Problem
		if p == nil || p.Line != 1 || p.Kind != audit.Changed || !strings.Contains(p.Text, "another key") {
			t.Errorf("got %+v", p)
		}
		write(t, other, 2)
	}
	if p := verify(t, cfg).Problem; p == nil || p.Line != 4 || p.Kind != audit.Changed {
		t.Errorf("with the first key: %+v", p)
	}
}

func TestVerifyFindsMixedStates(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 3)
	first := read(t, cfg)
	write(t, cfg, 2)
	second := read(t, cfg)
	put(t, cfg, first)
	write(t, cfg, 2)
	name := files(t, cfg)[0]
	// The end of one continuation behind the beginning of the other.
	third := read(t, cfg)
	a, b := bytes.SplitAfter(second[filepath.Base(name)], []byte("\n")), bytes.SplitAfter(third[filepath.Base(name)], []byte("\n"))
	a[4] = b[4]
	third[filepath.Base(name)] = bytes.Join(a, nil)
	put(t, cfg, third)
	if p := verify(t, cfg).Problem; p == nil || p.Line != 5 || p.Kind != audit.Replaced {
		t.Errorf("got %+v", p)
	}
	// The whole of one continuation under the head of the other.
	second["head"] = third["head"]
	put(t, cfg, second)
	if p := verify(t, cfg).Problem; p == nil || p.Line != 5 || p.Kind != audit.Replaced {
		t.Errorf("got %+v", p)
	}
}

func TestTornLineIsRepaired(t *testing.T) {
	for name, half := range map[string]string{"half": `{"seq":4,"time":"20`, "zeros": "\x00\x00\x00", "long": strings.Repeat("x", 1<<20)} {
		cfg := config(t)
		write(t, cfg, 3)
		f, err := os.OpenFile(files(t, cfg)[0], os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(half); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, cfg); r.Problem != nil || r.Lines != 3 || r.Torn != int64(len(half)) {
			t.Errorf("%s: %+v, %+v", name, r, r.Problem)
		}
		write(t, cfg, 1)
		good(t, cfg, 5)
		got := records(t, cfg, audit.TailOptions{Last: 2})
		if got[0].Kind != audit.Recovery || got[0].Outcome != "torn" || got[1].Kind != audit.ToolCall {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCrashBeforeHeadLosesNothing(t *testing.T) {
	cfg := config(t)
	cfg.MaxBytes = 1500
	write(t, cfg, 2)
	before := read(t, cfg)["head"]
	for range 4 { // into another file, too
		write(t, cfg, 1)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "head"), before, 0o600); err != nil {
		t.Fatal(err)
	}
	good(t, cfg, 6)
	write(t, cfg, 1)
	good(t, cfg, 7)
}

// fill writes very many lines.
func fill(t testing.TB, cfg audit.Config, n int) {
	t.Helper()
	l := open(t, cfg)
	for i := range n {
		if line := call("exec_abcdefghijklmnopqrstuvwxyz"); (i+1)%1000 != 0 {
			l.AppendLater(line)
		} else if err := l.Append(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkVerify says how long a million lines take. It has that many with
// AUDIT_LINES=1000000 and less without.
func BenchmarkVerify(b *testing.B) {
	cfg, lines := config(b), 20_000
	if n, err := strconv.Atoi(os.Getenv("AUDIT_LINES")); err == nil {
		lines = n
	}
	fill(b, cfg, lines)
	for b.Loop() {
		good(b, cfg, int64(lines))
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(lines)*1e6, "s/million")
}

func BenchmarkLater(b *testing.B) {
	l := open(b, config(b))
	for b.Loop() {
		l.AppendLater(call("exec_abcdefghijklmnopqrstuvwxyz"))
	}
}

func BenchmarkAppend(b *testing.B) {
	l := open(b, config(b))
	for b.Loop() {
		if err := l.Append(b.Context(), call("exec_abcdefghijklmnopqrstuvwxyz")); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzVerify finds no file but the one that was written good, and Tail reads any.
func FuzzVerify(f *testing.F) {
	cfg := config(f)
	write(f, cfg, 3)
	path := files(f, cfg)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(bytes.Clone(whole), whole...))
	f.Add(append(bytes.Clone(whole), "{"...))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := audit.Verify(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		rest, same := bytes.CutPrefix(text, whole)
		if ok := same && !bytes.Contains(rest, []byte("\n")); ok != (r.Problem == nil) {
			t.Errorf("good is %t: %+v", ok, r.Problem)
		}
		for _, rec := range records(t, cfg, audit.TailOptions{Last: 100}) {
			if _, err := json.Marshal(rec); err != nil {
				t.Error(err)
			}
		}
	})
}
