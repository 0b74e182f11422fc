package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
)

// These tests send messages while code runs, which scripts cannot do. They use the real
// sandbox.

func needSandbox(t *testing.T) {
	t.Helper()
	if !sandboxWorks(t) {
		t.Skip("code cannot be executed here")
	}
}

func TestInterruptEndsCodeAndCommand(t *testing.T) {
	needSandbox(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	outR, outW := io.Pipe()
	var said strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, all.Features(), []string{"exec", "-c", "print('started')\nwhile True: pass"}, strings.NewReader(""), outW, &said)
	}()
	if line, err := bufio.NewReader(outR).ReadString('\n'); line != "started\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	began := time.Now()
	interrupt()
	if got := <-code; got != cli.ExitInterrupted || said.String() != "error: interrupted\n" {
		t.Errorf("exit code %d, output %q", got, said.String())
	}
	if took := time.Since(began); took > 20*time.Second { // the code's own limit is 30 s
		t.Errorf("it took %v", took)
	}
}

func TestCancelledCallEndsOnlyItsCode(t *testing.T) {
	needSandbox(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- run(t.Context(), all.Features(), []string{"serve"}, inR, outW, io.Discard) }()
	answers := bufio.NewScanner(outR)
	answers.Buffer(nil, 1<<20)
	say := func(format string, args ...any) { fmt.Fprintf(inW, format+"\n", args...) }
	hear := func() (id any, line string) {
		if !answers.Scan() {
			t.Fatal("the server is silent")
		}
		var head struct{ ID any }
		if err := json.Unmarshal(answers.Bytes(), &head); err != nil {
			t.Fatalf("%q on standard output: %v", answers.Text(), err)
		}
		return head.ID, answers.Text()
	}
	call := func(id int, code string) {
		say(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":%d},"arguments":{"code":%q}}}`, id, id, code)
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	hear()

	call(1, "progress(1, 1, 'on my way')\nwhile True: pass")
	if _, line := hear(); !strings.Contains(line, "on my way") {
		t.Errorf("progress: %s", line)
	}
	call(2, "6 * 7")
	if id, line := hear(); id != 2.0 || !strings.Contains(line, `\"result\":42`) {
		t.Errorf("beside it: %s", line)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if id, line := hear(); id != 1.0 || !strings.Contains(line, `\"error_type\":\"cancelled\"`) {
		t.Errorf("cancelled: %s", line)
	}
	call(3, "7 * 7")
	if id, line := hear(); id != 3.0 || !strings.Contains(line, `\"result\":49`) {
		t.Errorf("after it: %s", line)
	}
	inW.Close()
	if got := <-code; got != cli.ExitOK {
		t.Errorf("exit code %d", got)
	}
}
