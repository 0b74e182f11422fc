package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// maxLine limits one message from the client. It allows a large write_workspace_file.
const maxLine = 32 << 20

// errGone and errStopped are the causes of cancelled calls: no faults of Sandpiper.
var (
	errGone    = fault.Wrap(fault.Unavailable, context.Canceled, "the client closed the connection")
	errStopped = fault.Wrap(fault.Unavailable, context.Canceled, "the daemon is stopping")
)

// ServeStdio serves MCP to one client, the caller, one message per line, until in ends, out fails or
// ctx ends. Running calls then have Linger or Grace to finish, and Grace if ctx ends during
// Linger; after that their contexts end, and one second later ServeStdio returns even if
// calls still run.
//
// A blocked read of in is abandoned; it ends with the process or when in is closed.
func (s *Server) ServeStdio(ctx context.Context, caller string, in io.Reader, out io.Writer) error {
	alive, kill := context.WithCancelCause(context.Background())
	c := newLineConn(in, out, func(n int) (*memory.Share, error) { return s.cfg.Memory.Reserve(alive, caller, int64(n)) })
	defer c.release()
	server, subscriptions := s.build(alive, authenticator{unnamed: caller}, &mcp.ServerOptions{})
	defer subscriptions.close()
	defer kill(errGone)
	session, err := server.Connect(ctx, c, nil)
	if err != nil {
		return fmt.Errorf("connecting over stdio: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- session.Wait() }()

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		c.drain()
	case <-c.ended:
		c.drain()
		select {
		case err := <-done:
			return err
		case <-time.After(s.cfg.Linger):
			kill(errGone)
			return awaitCancelled(done)
		case <-ctx.Done(): // a client that waits no longer sends SIGTERM
		}
	}
	select {
	case err := <-done:
		return err
	case <-time.After(s.cfg.Grace):
		kill(errStopped)
		return awaitCancelled(done)
	}
}

// awaitCancelled waits for the end of cancelled calls, at most one second.
func awaitCancelled(done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-time.After(time.Second):
		return errors.New("calls did not end after cancellation")
	}
}

// lineConn is a connection over two streams. The SDK's own fails at the first line that
// is not JSON, and drops the answers of running calls when input ends; this one answers
// both.
type lineConn struct {
	lines    chan line                              // complete lines from the reading goroutine
	reserve  func(bytes int) (*memory.Share, error) // memory for a line
	ended    chan struct{}                          // closed when there are no more lines
	draining chan struct{}                          // closed by drain: read no more, finish what runs
	closed   chan struct{}

	drainOnce, closeOnce sync.Once

	writing sync.Mutex // held while writing one line
	out     io.Writer

	mu   sync.Mutex
	open map[jsonrpc.ID]*memory.Share // unanswered calls
	idle chan struct{}                // non-nil while answered waits for open to be empty
}

// line is a message with the memory that is reserved for it.
type line struct {
	text  []byte
	share *memory.Share
}

func newLineConn(in io.Reader, out io.Writer, reserve func(bytes int) (*memory.Share, error)) *lineConn {
	c := &lineConn{
		lines: make(chan line), ended: make(chan struct{}),
		draining: make(chan struct{}), closed: make(chan struct{}),
		out: out, open: map[jsonrpc.ID]*memory.Share{}, reserve: reserve,
	}
	go c.scan(in)
	return c
}

// Connect implements mcp.Transport: a lineConn is its own connection.
func (c *lineConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection; a stream has none.
func (c *lineConn) SessionID() string { return "" }

func (c *lineConn) drain() { c.drainOnce.Do(func() { close(c.draining) }) }

// Close implements mcp.Connection. It leaves the streams to their owner.
func (c *lineConn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return nil
}

// scan reads lines from in until it ends.
func (c *lineConn) scan(in io.Reader) {
	defer close(c.ended)
	r := bufio.NewReaderSize(in, 64<<10)
	if start, _ := r.Peek(len(mark)); string(start) == mark {
		_, _ = r.Discard(len(mark))
	}
	for {
		text, err := readLine(r)
		if errors.Is(err, errTooLong) {
			c.refuse(jsonrpc.CodeParseError, nil, fmt.Sprintf("a message may have at most %d bytes", maxLine))
			continue
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			share, refused := c.reserveLine(text)
			if refused {
				continue
			}
			select {
			case c.lines <- line{text, share}:
			case <-c.draining:
				share.Release()
				return
			case <-c.closed:
				share.Release()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// mark is the byte order mark, with which some clients on Windows begin their first line.
const mark = "\ufeff"

// reserveLine reserves the memory for a large line, or answers it with the time to wait before the
// next attempt.
func (c *lineConn) reserveLine(text []byte) (share *memory.Share, refused bool) {
	if len(text) <= memory.Small || c.reserve == nil {
		return nil, false
	}
	share, err := c.reserve(perByte * len(text))
	if err != nil {
		id, _ := rawjson.Members(text, "id")
		var of json.RawMessage
		if len(id) > 0 {
			of = id[0]
		}
		c.refuse(codeBusy, of, explain(err))
	}
	return share, err != nil
}

// codeBusy is the code of the answer to a message for which there is no memory now.
const codeBusy = -32000

// release returns the memory that is reserved for unanswered calls.
func (c *lineConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, share := range c.open {
		share.Release()
	}
}

var errTooLong = errors.New("line too long")

// readLine returns the next line. It skips a line longer than maxLine without buffering
// it.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long && err == nil {
			err = errTooLong
		}
		return line, err
	}
}

// Read implements mcp.Connection. While the connection drains, it returns io.EOF only
// when all calls are answered, because the SDK then cancels running calls.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case l := <-c.lines:
			if msg := c.decode(l); msg != nil {
				return msg, nil
			}
		case <-c.draining:
			return nil, c.finish(ctx)
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *lineConn) finish(ctx context.Context) error {
	select {
	case <-c.answered():
	case <-c.closed:
	case <-ctx.Done():
	}
	return io.EOF
}

// decode returns the message in line, or answers an invalid line itself.
func (c *lineConn) decode(l line) jsonrpc.Message {
	msg, err := jsonrpc.DecodeMessage(l.text)
	if err != nil {
		l.share.Release()
		c.refuseLine(l.text)
		return nil
	}
	// A subscription stays open as long as the connection and needs no answer.
	if r, ok := msg.(*jsonrpc.Request); ok && r.IsCall() && r.Method != "subscriptions/listen" {
		c.mu.Lock()
		c.open[r.ID].Release() // of a call with the same id
		c.open[r.ID] = l.share
		c.mu.Unlock()
	} else {
		l.share.Release()
	}
	return msg
}

func (c *lineConn) refuseLine(line []byte) {
	var head struct {
		ID json.RawMessage `json:"id"`
	}
	switch {
	case !json.Valid(line):
		c.refuse(jsonrpc.CodeParseError, nil, "this line is not JSON; send one JSON-RPC message a line")
	case line[0] == '[':
		c.refuse(jsonrpc.CodeInvalidRequest, nil, "batches are not supported; send one JSON-RPC message a line")
	default:
		_ = json.Unmarshal(line, &head) // an invalid id stays nil
		c.refuse(jsonrpc.CodeInvalidRequest, head.ID, `this is no JSON-RPC 2.0 message; it needs "jsonrpc":"2.0", a "method" and, for a `+
			`call, an "id" that is a string or a number`)
	}
}

func (c *lineConn) refuse(code int, id json.RawMessage, message string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message},
	})
	if err == nil {
		_ = c.writeLine(body) // the next answer reports a failing out
	}
}

// Write implements mcp.Connection.
func (c *lineConn) Write(_ context.Context, msg jsonrpc.Message) error {
	body, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	if err := c.writeLine(body); err != nil {
		return err
	}
	if r, ok := msg.(*jsonrpc.Response); ok {
		c.markAnswered(r.ID)
	}
	return nil
}

func (c *lineConn) writeLine(body []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(body, '\n'))
	return err
}

// markAnswered records that a call was answered.
func (c *lineConn) markAnswered(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id].Release()
	delete(c.open, id)
	if len(c.open) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// answered returns a channel that is closed once no call is open.
func (c *lineConn) answered() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := make(chan struct{})
	if len(c.open) == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	return idle
}
