package mcpserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

// peer is a client of one connection.
type peer struct {
	t     testing.TB
	in    io.WriteCloser
	lines *bufio.Scanner
	ended chan error
}

func connect(t testing.TB, s *mcpserver.Server) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, lines: bufio.NewScanner(outR), ended: make(chan error, 1)}
	p.lines.Buffer(nil, 16<<20)
	go func() {
		p.ended <- s.ServeStdio(t.Context(), inR, outW)
		outW.Close()
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	p.send(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	p.receive()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

func (p *peer) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

type response struct {
	ID     any
	Method string
	Result struct {
		IsError bool
		Content []struct{ Text string }
	}
}

func (p *peer) receive() response {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("no message from the server: %v", p.lines.Err())
	}
	var h response
	if err := json.Unmarshal(p.lines.Bytes(), &h); err != nil {
		p.t.Fatal(err)
	}
	return h
}

func TestCancelEndsExecution(t *testing.T) {
	backend := fake.New(fake.Config{})
	p := connect(t, newServerOn(t, builtin.Lean, backend))
	// Without cancellation this takes five minutes. Progress shows that it has started.
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":"p"},"arguments":{"code":"call progress {\"done\":1}\nsleep 1h","timeout_seconds":300}}}`)
	if h := p.receive(); h.Method != "notifications/progress" {
		t.Fatalf("got %+v", h)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if h := p.receive(); !h.Result.IsError || !strings.Contains(h.Result.Content[0].Text, `"error_type":"cancelled"`) {
		t.Errorf("got %+v", h)
	}
	p.in.Close()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	if open, _ := backend.Count(); open > 1 { // the last may still be closing
		t.Errorf("%d sandboxes are open", open)
	}
}

func TestConcurrentCalls(t *testing.T) {
	const n = 64
	p := connect(t, newServer(t, builtin.Lean))
	go func() {
		for i := range n {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"print %d\nsleep 10ms\nresult %d"}}}`, i, i, i))
		}
	}()
	seen := map[any]bool{}
	for range n {
		h := p.receive()
		want := fmt.Sprintf(`{"success":true,"result":%v,"output":["%v"],`, h.ID, h.ID)
		if seen[h.ID] || !strings.HasPrefix(h.Result.Content[0].Text, want) {
			t.Errorf("call %v got %+v", h.ID, h)
		}
		seen[h.ID] = true
	}
}

func TestWithoutSandboxExecutionIsRejected(t *testing.T) {
	broken := fault.New(fault.Unavailable, "this machine forbids user namespaces").WithHint("ask `sandpiper doctor`")
	p := connect(t, newServerOn(t, builtin.Standard, fake.New(fake.Config{OpenError: broken})))
	for _, c := range []struct{ call, want string }{
		{`{"name":"execute_code","arguments":{"code":"result 1"}}`,
			`{"success":false,"error":"this machine forbids user namespaces; ask ` + "`sandpiper doctor`" + `"}`},
		{`{"name":"write_workspace_file","arguments":{"filename":"a","content":"b"}}`, `{"success":true,"message":"Written 1 bytes to a"}`},
	} {
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + c.call + `}`)
		if h := p.receive(); h.Result.Content[0].Text != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.call, h.Result.Content[0].Text, c.want)
		}
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	if _, err := mcpserver.New(mcpserver.Config{Profile: "huge"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("profile huge: %v", err)
	}
	if _, err := mcpserver.New(mcpserver.Config{Privacy: new(redact.Rules)}); err == nil {
		t.Error("New accepted an empty Config")
	}
}

// BenchmarkCall measures the overhead of the server: one call over stdio whose code takes no time.
func BenchmarkCall(b *testing.B) {
	p := connect(b, newServer(b, builtin.Standard))
	for b.Loop() {
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"result 1"}}}`)
		p.receive()
	}
}
