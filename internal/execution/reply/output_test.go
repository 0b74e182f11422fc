package reply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// memory is a file in memory with a size limit.
type memory struct {
	bytes.Buffer
	most      int
	committed bool
	aborted   bool
}

func (m *memory) Write(p []byte) (int, error) {
	if m.most > 0 && m.Len()+len(p) > m.most {
		return 0, errors.New("no space left")
	}
	return m.Buffer.Write(p)
}
func (m *memory) Commit(context.Context) error { m.committed = true; return nil }
func (m *memory) Abort()                       { m.aborted = true }

func TestUnwritableOutputIsCountedAndReported(t *testing.T) {
	m := &memory{most: 100}
	o := &Output{path: "/workspace/x", truncate: head, replyLeft: 20, bytesLeft: 1 << 20, create: func() (file, error) { return m, nil }}
	for range 100 {
		if err := o.Add([]byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	var r Result
	o.Finish(t.Context(), &r)
	f := r.OutputFile
	if !m.aborted || m.committed || f == nil || f.Path != "" || f.Items != 100 || f.Bytes != 1100 || !strings.Contains(f.Note,
		"could not be stored") {
		t.Errorf("%+v, aborted %v", f, m.aborted)
	}
	if strings.Contains(f.Note, "no space") {
		t.Errorf("the note shows the cause: %s", f.Note)
	}
}

// FuzzOutput checks that for any output the reply is bounded and valid, and that items and file
// together contain all of it.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\nb\n\xff\xff\n\"\\\x00\n"), uint16(10))
	f.Add(bytes.Repeat([]byte("\n"), 500), uint16(100))
	f.Fuzz(func(t *testing.T, in []byte, room uint16) {
		m := &memory{}
		o := &Output{path: "/workspace/x", truncate: head, replyLeft: int(room), bytesLeft: 1 << 30,
			create: func() (file, error) { return m, nil }}
		items := bytes.Split(in, []byte("\n"))
		for _, item := range items {
			if err := o.Add(item); err != nil {
				t.Fatal(err)
			}
		}
		var r Result
		o.Finish(t.Context(), &r)
		reply, err := json.Marshal(r.Output)
		if err != nil {
			t.Fatal(err)
		}
		if len(reply) > 6*int(room)+64 {
			t.Fatalf("%d bytes of reply for room %d", len(reply), room)
		}
		if r.OutputFile == nil {
			if len(r.Output) != len(items) {
				t.Fatalf("%d of %d items and no file", len(r.Output), len(items))
			}
			return
		}
		if want := strings.ToValidUTF8(string(in), "\ufffd") + "\n"; strings.ToValidUTF8(m.String(), "\ufffd") != want || !m.committed {
			t.Fatalf("file %q, want %q", m.String(), want)
		}
	})
}

// head returns the beginning of a text without private values.
func head(text string, n int) string { return strings.ToValidUTF8(text[:min(n, len(text))], "") }
