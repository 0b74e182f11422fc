package appendlog_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

func create(t testing.TB) (*appendlog.Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	l, err := appendlog.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

// add appends and syncs a frame for each text.
func add(t testing.TB, l *appendlog.Log, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := errors.Join(l.Append([]byte(text)), l.Sync()); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the frames, each as number:payload.
func read(path string, after int64) (all []string, err error) {
	err = appendlog.Read(path, after, func(number int64, payload []byte) error {
		all = append(all, fmt.Sprintf("%d:%s", number, payload))
		return nil
	})
	return all, err
}

func expect(t testing.TB, path string, after int64, want ...string) {
	t.Helper()
	if got, err := read(path, after); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

func TestReadReturnsFrames(t *testing.T) {
	l, path := create(t)
	expect(t, path, 0)
	add(t, l, "one", "", "three")
	expect(t, path, 0, "1:one", "2:", "3:three")
	expect(t, path, 2, "3:three")
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if _, err := appendlog.Create(path); err == nil {
		t.Error("a file was created twice")
	}
	large := strings.Repeat("x", 3<<20)
	add(t, l, large)
	if got, err := read(path, 3); err != nil || len(got) != 1 || got[0] != "4:"+large {
		t.Errorf("%d frames, %v", len(got), err)
	}
	if err := l.Append(make([]byte, appendlog.MaxSize)); !errors.Is(err, appendlog.ErrFull) {
		t.Errorf("too much: %v", err)
	}
	l.Reset(4)
	if fi, err := os.Stat(path); err != nil || fi.Size() > 1<<20 {
		t.Errorf("after Reset the file has %d bytes, %v", fi.Size(), err)
	}
	add(t, l, "five")
	expect(t, path, 4, "5:five")
}

// The file is overwritten after Reset, and whatever the lengths are, no earlier frame is read.
func TestReadSkipsFramesBeforeReset(t *testing.T) {
	l, path := create(t)
	r := rand.New(rand.NewPCG(1, 2))
	for reset, n := int64(0), int64(0); n < 1000; {
		var want []string
		for range 1 + r.IntN(8) {
			n++
			text := strings.Repeat("x", r.IntN(4)*r.IntN(30))
			if err := l.Append([]byte(text)); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%d:%s", n, text))
			expect(t, path, reset, want...)
		}
		if l.Reset(n - 1) { // it is not the last one
			t.Fatal("frames were forgotten")
		}
		expect(t, path, reset, want...)
		l.Reset(n)
		reset = n
		expect(t, path, reset)
	}
}

// A crash may leave any part of the last frames, or zeros in their place.
func TestReadStopsAtTornEnd(t *testing.T) {
	l, path := create(t)
	add(t, l, "zero")
	l.Reset(1)
	texts := []string{"one", strings.Repeat("two", 20), "", "four"}
	ends := []int{16} // of the frames
	want := []string{}
	for i, text := range texts {
		if err := l.Append([]byte(text)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, 16+int(l.Size()))
		want = append(want, fmt.Sprintf("%d:%s", i+2, text))
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "torn")
	for n := range ends[4] {
		complete := 0
		for complete < 4 && ends[complete+1] <= n {
			complete++
		}
		for _, rest := range [][]byte{nil, make([]byte, 500), bytes.Repeat([]byte{0xff}, 500)} {
			if err := os.WriteFile(at, append(bytes.Clone(whole[:n]), rest...), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := read(at, 1)
			if n < 16 { // the header is synced with the first frame
				err = nil
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want[:complete]) {
				t.Fatalf("torn at byte %d: read %q, %v", n, got, err)
			}
		}
	}
}

// A changed byte ends what is read, and is reported unless it is in the last frame or was not on disk.
func TestReadReportsDamage(t *testing.T) {
	l, path := create(t)
	ends := []int{16}
	for _, text := range []string{"one", strings.Repeat("two", 20), "three", "four"} {
		add(t, l, text)
		ends = append(ends, 16+int(l.Size()))
	}
	if err := l.Append([]byte("five")); err != nil { // the number of the frame on disk before is that of four
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := read(path, 0)
	if err != nil || len(all) != 5 {
		t.Fatal(all, err)
	}
	at := filepath.Join(t.TempDir(), "damaged")
	for n := range 16 + l.Size() {
		for _, change := range []byte{1, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[n] ^= change
			if err := os.WriteFile(at, b, 0o600); err != nil {
				t.Fatal(err)
			}
			complete := 0
			for complete < 4 && ends[complete+1] <= int(n) {
				complete++
			}
			if n < 16 {
				complete = 0
			}
			got, err := read(at, 0)
			if fmt.Sprint(got) != fmt.Sprint(all[:complete]) || errors.Is(err, appendlog.ErrDamaged) != (complete < 4) {
				t.Fatalf("byte %d changed: read %q, %v", n, got, err)
			}
		}
	}
}

func TestConcurrentAppends(t *testing.T) {
	l, path := create(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := l.Append([]byte("x")); err != nil {
					t.Error(err)
				}
				n := l.Last() // or later: another one is the last
				if err := l.Sync(); err != nil {
					t.Error(err)
				}
				if all, err := read(path, 0); len(all) < int(n) && err == nil {
					t.Errorf("%d frames of %d", len(all), n)
				}
			}
		})
	}
	wg.Wait()
	if all, err := read(path, 0); err != nil || len(all) != 400 || all[399] != "400:x" {
		t.Errorf("%d frames, %v", len(all), err)
	}
}

func TestClaimRejectsLogInUse(t *testing.T) {
	l, path := create(t)
	add(t, l, "one")
	if appendlog.Claim(path) != nil {
		t.Fatal("a log in use was claimed")
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(nil); err == nil {
		t.Error("a closed log was appended to")
	}
	for _, really := range []bool{false, true} {
		claimed := appendlog.Claim(path)
		if claimed == nil || appendlog.Claim(path) != nil {
			t.Fatal("it is claimed once")
		}
		if err := claimed(really); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); (err == nil) == really {
			t.Errorf("removed %t: %v", really, err)
		}
	}
	if appendlog.Claim(path) != nil {
		t.Error("a missing file was claimed")
	}
}

func TestAppendRejectsDeletedFile(t *testing.T) {
	l, path := create(t)
	add(t, l, "one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Append([]byte("two")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a deleted file was appended to: %v", err)
	}
}

const pathOfKilled = "APPENDLOG_TEST_PATH"

// TestAppendUntilKilled is the process that TestKillLosesNoFrame starts.
func TestAppendUntilKilled(t *testing.T) {
	if os.Getenv(pathOfKilled) == "" {
		t.Skip("TestKillLosesNoFrame starts it")
	}
	l, err := appendlog.Create(os.Getenv(pathOfKilled))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		if err := l.Append(fmt.Appendf(nil, "%d%s", n, strings.Repeat(".", n%97*n%400))); err != nil {
			t.Fatal(err)
		}
		fmt.Println(n)
	}
}

func TestKillLosesNoFrame(t *testing.T) {
	for round := range 20 {
		path := filepath.Join(t.TempDir(), "log")
		c := exec.Command(os.Args[0], "-test.run", "^TestAppendUntilKilled$")
		c.Env = append(os.Environ(), pathOfKilled+"="+path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		last := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
				t.Errorf("%q: %v", lines.Text(), err)
			}
			if last == 1+round*round {
				_ = c.Process.Kill()
			}
		}
		_ = c.Wait()
		all, err := read(path, 0)
		if err != nil || last < 1+round*round || len(all) < last || len(all) > last+1 {
			t.Errorf("%d frames of %d, %v", len(all), last, err)
		}
		for i, frame := range all {
			if n := i + 1; frame != fmt.Sprintf("%d:%d%s", n, n, strings.Repeat(".", n%97*n%400)) {
				t.Errorf("frame %d is %q", n, frame)
			}
		}
	}
}

func BenchmarkAppendAndSync(b *testing.B) {
	l, _ := create(b)
	text := make([]byte, 600)
	for n := int64(1); b.Loop(); n++ {
		if err := errors.Join(l.Append(text), l.Sync()); err != nil {
			b.Fatal(err)
		}
		if n%100 == 0 {
			l.Reset(n)
		}
	}
}
