// Package logtest keeps what is logged, for tests that read it while it is written.
package logtest

import (
	"bytes"
	"sync"
)

// Log is what was written to it. Its zero value is empty, and safe for concurrent use.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String implements fmt.Stringer.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
