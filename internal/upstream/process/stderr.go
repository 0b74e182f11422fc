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

// Bounds of the displayed lines, and of the raw lines kept for redaction. A secret such
// as a private key may span several lines; redaction recognizes one that begins before
// the displayed lines only with the preceding lines.
const (
	shownLines  = 20
	shownBytes  = 500 // of a line
	rawLines    = 120
	maxRawBytes = 256 << 10 // of all lines
)

// stderrTail reads a stream to its end without blocking the writer, and keeps the last
// lines.
type stderrTail struct {
	redact func(string) string
	done   chan struct{} // closed at the end of the stream

	mu       sync.Mutex
	raw      []string // unredacted
	rawBytes int      // total size of raw
	shown    []string // the last of raw, redacted; nil if not computed
}

func tailStderr(r io.Reader, redact func(string) string) *stderrTail {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	t := &stderrTail{redact: redact, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.read(bufio.NewReaderSize(r, 64<<10))
	}()
	return t
}

// read keeps the part of each line that fits into the buffer and discards the rest.
func (t *stderrTail) read(r *bufio.Reader) {
	for begun := false; ; {
		part, err := r.ReadSlice('\n')
		if !begun {
			t.add(string(part))
		}
		begun = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !begun {
			return
		}
	}
}

func (t *stderrTail) add(line string) {
	line = strings.TrimSuffix(line, "\n")
	if strings.TrimSpace(line) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw, t.rawBytes, t.shown = append(t.raw, line), t.rawBytes+len(line), nil
	n := 0
	for len(t.raw)-n > rawLines || t.rawBytes > maxRawBytes {
		t.rawBytes -= len(t.raw[n])
		n++
	}
	t.raw = slices.Delete(t.raw, 0, n)
}

// lines returns the last lines. It redacts before it truncates, because a truncated
// secret is not recognized.
func (t *stderrTail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shown == nil && len(t.raw) > 0 {
		t.shown = []string{}
		for line := range strings.SplitSeq(t.redact(strings.Join(t.raw, "\n")), "\n") {
			if line = strings.TrimRight(sanitize.Text(line, shownBytes), " \t\n"); strings.TrimSpace(line) != "" {
				t.shown = append(t.shown, line)
			}
		}
		t.shown = t.shown[max(0, len(t.shown)-shownLines):]
	}
	return slices.Clone(t.shown)
}
