package child

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/plain"
)

// What is kept of stderr.
const (
	keptLines = 20
	keptBytes = 500 // of a line
)

// tail reads a stream to its end, as fast as it comes, and keeps the last lines.
type tail struct {
	redact func(string) string
	done   chan struct{} // closed at the end of the stream

	mu   sync.Mutex
	kept []string
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
			t.keep(part)
		}
		begun = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !begun {
			return
		}
	}
}

func (t *tail) keep(line []byte) {
	// Redacted before it is cut: half a secret is not recognized.
	text := strings.TrimRight(plain.Text(t.redact(string(line)), keptBytes), " \t\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == keptLines {
		t.kept = slices.Delete(t.kept, 0, 1)
	}
	t.kept = append(t.kept, text)
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.kept)
}
