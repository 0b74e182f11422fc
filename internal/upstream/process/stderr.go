package process

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// What is shown of stderr, and what is kept in memory to redact it. A value may take
// several lines, as a private key does: one that begins before the shown lines is
// recognized only with those.
const (
	shownLines = 20
	shownBytes = 500 // of a line
	keptLines  = 120
	keptBytes  = 256 << 10 // of all lines
)

// tail reads a stream to its end, as fast as it comes, and keeps the last lines.
type tail struct {
	redact func(string) string
	done   chan struct{} // closed at the end of the stream

	mu    sync.Mutex
	kept  []string // as they came
	bytes int      // of kept
	shown []string // the last of kept, redacted; nil if that is to be done
}

func listen(r io.Reader, redact func(string) string) *tail {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	t := &tail{redact: redact, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.read(bufio.NewReaderSize(r, 64<<10))
	}()
	return t
}

// read takes the beginning of each line; the rest of one that does not fit into
// the buffer is read and forgotten.
func (t *tail) read(r *bufio.Reader) {
	for begun := false; ; {
		part, err := r.ReadSlice('\n')
		if !begun {
			t.keep(string(part))
		}
		begun = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !begun {
			return
		}
	}
}

func (t *tail) keep(line string) {
	line = strings.TrimSuffix(line, "\n")
	if strings.TrimSpace(line) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.bytes, t.shown = append(t.kept, line), t.bytes+len(line), nil
	n := 0
	for len(t.kept)-n > keptLines || t.bytes > keptBytes {
		t.bytes -= len(t.kept[n])
		n++
	}
	t.kept = slices.Delete(t.kept, 0, n)
}

// lines returns the last lines. They are redacted before they are cut: half a secret
// is not recognized.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown == nil && len(t.kept) > 0 {
		t.shown = []string{}
		for line := range strings.SplitSeq(t.redact(strings.Join(t.kept, "\n")), "\n") {
			if line = strings.TrimRight(sanitize.Text(line, shownBytes), " \t\n"); strings.TrimSpace(line) != "" {
				t.shown = append(t.shown, line)
			}
		}
		t.shown = t.shown[max(0, len(t.shown)-shownLines):]
	}
	return slices.Clone(t.shown)
}
