package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
)

// maxLine is the maximum size of a message in bytes.
const maxLine = 64 << 20

// stdio is the transport over the standard input and output of a daemon.
type stdio struct {
	in   io.WriteCloser
	gone chan struct{} // closed when no more responses can arrive

	write sync.Mutex // serializes lines

	mu    sync.Mutex
	next  int64
	calls map[int64]chan message
}

func newStdio(in io.WriteCloser, out io.Reader) *stdio {
	s := &stdio{in: in, gone: make(chan struct{}), calls: make(map[int64]chan message)}
	go s.listen(out)
	return s
}

// listen delivers responses to their requests until the output ends.
func (s *stdio) listen(out io.Reader) {
	defer close(s.gone)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		s.mu.Lock()
		ch := s.calls[m.ID]
		delete(s.calls, m.ID)
		s.mu.Unlock()
		if ch != nil {
			ch <- m
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line that is too long must not block the daemon
}

func (s *stdio) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	ch := make(chan message, 1)
	s.mu.Lock()
	s.next++
	id := s.next
	s.calls[id] = ch
	s.mu.Unlock()
	if err := s.send(message{ID: id, Method: method, Params: params}); err != nil {
		return nil, ErrGone
	}
	select {
	case m := <-ch:
		return m.outcome()
	case <-s.gone:
		select {
		case m := <-ch: // it arrived just before the end
			return m.outcome()
		default:
			return nil, ErrGone
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *stdio) notify(_ context.Context, method string) error {
	return s.send(message{Method: method})
}

func (s *stdio) send(m message) error {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	s.write.Lock()
	defer s.write.Unlock()
	_, err = s.in.Write(append(line, '\n'))
	return err
}

// close may be called more than once, since clients share the connection.
func (s *stdio) close() error {
	if err := s.in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
