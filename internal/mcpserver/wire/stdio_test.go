package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

var gate = func() *redact.Gate {
	rules, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		panic(err)
	}
	return rules.For(redact.Owner{})
}()

const schema = `{"type":"object"}`

// echo returns its arguments.
func echo(ctx context.Context, c Call) (redact.Redacted, error) {
	return gate.Redact(ctx, string(c.Arguments))
}

// client is the client side of a connection.
type client struct {
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
	ended chan error // what ServeStdio returned
	stop  context.CancelFunc
}

func dial(t *testing.T, cfg Config) *client {
	t.Helper()
	cfg.Name, cfg.Version = "test", "1"
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, lines: bufio.NewScanner(outR), ended: make(chan error, 1), stop: stop}
	c.lines.Buffer(nil, 64<<20)
	go func() {
		c.ended <- s.ServeStdio(ctx, cfg.Caller, inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() { stop(); inW.Close(); outR.Close() })
	return c
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

type answer struct {
	ID     any
	Method string
	Params json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
	Result struct {
		Content []struct {
			Type, Text, MIMEType string
			Data                 []byte
		}
		Meta       map[string]any `json:"_meta"`
		IsError    bool
		CacheScope string
		Tools      []map[string]any
	}
	raw    string
	result json.RawMessage
}

func (c *client) read() answer {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the server sent no further message (%v)", c.lines.Err())
	}
	a := answer{raw: c.lines.Text()}
	if err := json.Unmarshal(c.lines.Bytes(), &a); err != nil {
		c.t.Fatalf("the server wrote %q, which is not JSON: %v", c.lines.Text(), err)
	}
	var whole struct{ Result json.RawMessage }
	_ = json.Unmarshal(c.lines.Bytes(), &whole) // the line is valid JSON
	a.result = whole.Result
	return a
}

const (
	hello = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func (c *client) handshake() {
	c.t.Helper()
	c.send(hello)
	if a := c.read(); a.Error != nil {
		c.t.Fatalf("initialize: %s", a.raw)
	}
	c.send(ready)
}

func (c *client) call(id any, tool, args string) {
	c.t.Helper()
	i, _ := json.Marshal(id)
	c.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, i, tool, args)
}

func TestConcurrentCalls(t *testing.T) {
	const n = 64
	var together sync.WaitGroup
	together.Add(n)
	c := dial(t, Config{Tools: []Tool{{Name: "meet", Schema: json.RawMessage(schema),
		Handle: func(ctx context.Context, call Call) (redact.Redacted, error) {
			together.Done()
			together.Wait() // returns only when all calls have arrived
			return echo(ctx, call)
		}}}})
	c.handshake()
	go func() {
		for i := range n {
			c.call(i, "meet", fmt.Sprintf(`{"n":%d}`, i))
		}
	}()
	for range n {
		a := c.read()
		if want := fmt.Sprintf(`{"n":%v}`, a.ID); a.Error != nil || a.Result.Content[0].Text != want {
			t.Errorf("call %v got %s", a.ID, a.raw)
		}
	}
}

func TestRunningCallsAreAnsweredAfterInputEnds(t *testing.T) {
	release := make(chan struct{})
	c := dial(t, Config{Tools: []Tool{{Name: "slow", Schema: json.RawMessage(schema),
		Handle: func(ctx context.Context, call Call) (redact.Redacted, error) {
			<-release
			return echo(ctx, call)
		}}}})
	c.handshake()
	c.call(1, "slow", `{"a":1}`)
	c.in.Close()
	close(release)
	if a := c.read(); a.Error != nil || a.Result.Content[0].Text != `{"a":1}` {
		t.Errorf("got %s", a.raw)
	}
	if err := <-c.ended; err != nil {
		t.Errorf("ServeStdio = %v", err)
	}
}

func TestCallsEndAfterLingerOrGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		linger time.Duration
		leave  func(*client)
		cause  error
	}{
		"left":    {time.Millisecond, func(c *client) { c.in.Close() }, errGone},
		"stopped": {time.Hour, func(c *client) { c.stop() }, errStopped},
		// As clients do whose server does not end when they close its input.
		"left and stopped": {time.Hour, func(c *client) { c.in.Close(); c.stop() }, errStopped},
	} {
		t.Run(name, func(t *testing.T) {
			started, cause := make(chan struct{}), make(chan error, 1)
			c := dial(t, Config{Linger: tt.linger, Grace: time.Millisecond,
				Tools: []Tool{{Name: "endless", Schema: json.RawMessage(schema),
					Handle: func(ctx context.Context, call Call) (redact.Redacted, error) {
						close(started)
						<-ctx.Done()
						cause <- context.Cause(ctx)
						return gate.Redact(context.Background(), "cut short")
					}}}})
			c.handshake()
			c.call(1, "endless", `{}`)
			<-started
			tt.leave(c)
			if a := c.read(); a.Error != nil || a.Result.Content[0].Text != "cut short" {
				t.Errorf("got %s", a.raw)
			}
			if err := <-cause; !errors.Is(err, tt.cause) || fault.KindOf(err) == fault.Internal {
				t.Errorf("cause = %v, an error of Sandpiper: %v, want %v, none of Sandpiper", err, fault.KindOf(err) == fault.Internal,
					tt.cause)
			}
			if err := <-c.ended; err != nil {
				t.Errorf("ServeStdio = %v", err)
			}
		})
	}
}

func TestServeReturnsDespiteBlockedHandler(t *testing.T) {
	started, never := make(chan struct{}), make(chan struct{})
	c := dial(t, Config{Grace: time.Millisecond, Tools: []Tool{{Name: "deaf", Schema: json.RawMessage(schema),
		Handle: func(context.Context, Call) (redact.Redacted, error) {
			close(started)
			<-never
			return redact.Redacted{}, nil
		}}}})
	defer close(never)
	c.handshake()
	c.call(1, "deaf", `{}`)
	<-started
	c.stop()
	if err := <-c.ended; err == nil {
		t.Error("ServeStdio reports that all calls ended")
	}
}

func TestCancelEndsOneCall(t *testing.T) {
	started := make(chan string, 2)
	ended := make(chan string, 2)
	c := dial(t, Config{Tools: []Tool{{Name: "wait", Schema: json.RawMessage(schema),
		Handle: func(ctx context.Context, call Call) (redact.Redacted, error) {
			started <- string(call.Arguments)
			<-ctx.Done()
			ended <- string(call.Arguments)
			return gate.Redact(context.Background(), "")
		}}}})
	c.handshake()
	c.call("a", "wait", `"first"`)
	c.call("b", "wait", `"second"`)
	<-started
	<-started
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
	if got := <-ended; got != `"second"` {
		t.Errorf("%s ended, want \"second\"", got)
	}
	select {
	case got := <-ended:
		t.Errorf("%s ended too", got)
	default:
	}
}

func TestInvalidLinesAreAnswered(t *testing.T) {
	c := dial(t, Config{Tools: []Tool{{Name: "echo", Schema: json.RawMessage(schema), Handle: echo}}})
	c.handshake()
	for _, bad := range []struct {
		line string
		code int
		id   any
	}{
		{`{"jsonrpc":`, -32700, nil},
		{`hello`, -32700, nil},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, nil},
		{`{"id":7,"method":"ping"}`, -32600, 7.0},
		{`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, -32600, map[string]any{"a": 1.0}},
		{`3`, -32600, nil},
		{`"` + strings.Repeat("x", maxLine) + `"`, -32700, nil},
	} {
		c.send("%s", bad.line)
		a := c.read()
		if a.Error == nil || a.Error.Code != bad.code || fmt.Sprint(a.ID) != fmt.Sprint(bad.id) {
			t.Errorf("%.60s got %.200s; want code %d, id %v", bad.line, a.raw, bad.code, bad.id)
		}
	}
	c.send("")
	c.send("\r")
	c.call(1, "echo", `{"still":"here"}`)
	if a := c.read(); a.Result.Content[0].Text != `{"still":"here"}` {
		t.Errorf("after bad lines: %s", a.raw)
	}
}

func TestLastLineNeedsNoNewline(t *testing.T) {
	c := dial(t, Config{})
	fmt.Fprint(c.in, hello)
	c.in.Close()
	if a := c.read(); a.Error != nil || a.ID != "i" {
		t.Errorf("got %s", a.raw)
	}
}

// Some clients on Windows begin with a byte order mark.
func TestByteOrderMarkIsSkipped(t *testing.T) {
	c := dial(t, Config{Tools: []Tool{{Name: "echo", Schema: json.RawMessage(schema), Handle: echo}}})
	c.send("\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modern + `}}`)
	if a := c.read(); a.Error != nil || len(a.Result.Tools) != 1 {
		t.Errorf("%s", a.raw)
	}
}
