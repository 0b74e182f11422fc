package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// OpenStreams opens a connection over the stdout and stdin of a program, with one
// message per line. Closing the session does not close the streams: reading ends when
// out does.
func OpenStreams(ctx context.Context, out io.Reader, in io.Writer, cfg Config) (*Session, error) {
	s := &streams{out: out, in: in, closed: make(chan struct{})}
	s.lastCallID.Store(firstCallID - 1)
	s.handshake = newHandshake(s, cfg)
	cfg.InitializeFirst = false // the handshake implements it
	return open(ctx, s, cfg)
}

// streams implements sdk.Transport and sdk.Connection over two streams. The SDK's
// implementation ends at the first invalid line, accepts lines of any length, and blocks
// while the program does not read.
type streams struct {
	out         io.Reader
	in          io.Writer
	interceptor *interceptor

	handshake  *handshake
	lastCallID atomic.Int64 // of a tools/call

	messages  chan []byte   // messages for the SDK to read
	queue     chan []byte   // messages the SDK wrote
	closed    chan struct{} // closed by abort
	abortOnce sync.Once
	outClosed chan struct{} // closed at the end of out
	inClosed  chan struct{} // closed when in cannot be written
}

func (s *streams) transport(t *interceptor) (sdk.Transport, error) {
	s.interceptor, s.messages, s.queue = t, make(chan []byte), make(chan []byte, 16)
	s.outClosed, s.inClosed = make(chan struct{}), make(chan struct{})
	go s.readLoop()
	go s.writeLoop()
	return s, nil
}

// Connect implements sdk.Transport: streams are their own connection.
func (s *streams) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements sdk.Connection. There is no session ID.
func (s *streams) SessionID() string { return "" }

func (s *streams) abort() { s.abortOnce.Do(func() { close(s.closed) }) }

func (s *streams) legacy() bool { return s.handshake.ignoredDiscover() }

// wait does nothing: the loops end when the owner closes the streams.
func (s *streams) wait() {}

// Close implements sdk.Connection.
func (s *streams) Close() error {
	s.abort()
	return nil
}

// readLoop delivers messages until out ends. It continues after abort, so that a program
// that still writes can exit.
func (s *streams) readLoop() {
	defer close(s.outClosed)
	r := bufio.NewReaderSize(s.out, 64<<10)
	for {
		m := &message{t: s.interceptor}
		err := m.readLine(r)
		switch {
		case m.tail != nil:
			for _, m := range s.interceptor.receiveLarge(m, 0) {
				s.deliver(m)
			}
		default:
			if line := trimLeadingText(bytes.TrimSpace(m.data)); len(line) > 0 && !s.handshake.receive(line) {
				s.deliver(s.interceptor.receive(line))
			}
		}
		m.processed()
		if err != nil {
			s.interceptor.markClosed()
			return
		}
	}
}

func (s *streams) deliver(message []byte) {
	if message == nil {
		return
	}
	select {
	case s.messages <- message:
	case <-s.closed:
	}
}

// trimLeadingText removes text that a program printed on the same line before a message.
func trimLeadingText(line []byte) []byte {
	if i := bytes.Index(line, []byte(`{"jsonrpc":`)); i > 0 && line[0] != '{' && line[0] != '[' {
		return line[i:]
	}
	return line
}

// Read implements sdk.Connection.
func (s *streams) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case data := <-s.messages:
			if m, err := jsonrpc.DecodeMessage(data); err == nil {
				return m, nil
			}
			s.interceptor.invalidMessage("a message that is not JSON-RPC 2.0")
		case <-s.outClosed:
			return nil, io.EOF
		case <-s.inClosed:
			return nil, io.EOF
		case <-s.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Write implements sdk.Connection. Another goroutine writes the line, so that a program
// that does not read cannot block beyond the end of ctx.
func (s *streams) Write(ctx context.Context, m jsonrpc.Message) error {
	body, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	body = append(body, '\n')
	if handled, err := s.register(ctx, m, body); handled {
		return err
	}
	return s.enqueue(ctx, body)
}

// enqueue passes a line to writeLoop.
func (s *streams) enqueue(ctx context.Context, line []byte) error {
	select {
	case s.queue <- line:
		return nil
	case <-s.inClosed:
		return io.ErrClosedPipe
	case <-s.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// register records an outgoing message with the interceptor and the handshake. handled
// reports that the handshake has consumed it.
func (s *streams) register(ctx context.Context, m jsonrpc.Message, line []byte) (handled bool, err error) {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		s.interceptor.serverRequestDone()
		return false, nil
	}
	id, ok := r.ID.Raw().(int64)
	if !ok {
		return false, nil // a notification
	}
	s.interceptor.register(ctx, id)
	return s.handshake.write(ctx, r, id, line)
}

// writeLoop writes queued lines.
func (s *streams) writeLoop() {
	for {
		select {
		case line := <-s.queue:
			if _, err := s.in.Write(line); err != nil {
				s.interceptor.log.Debug("an upstream server closed its input", "error", fmt.Sprint(err))
				close(s.inClosed)
				return
			}
		case <-s.closed:
			return
		}
	}
}
