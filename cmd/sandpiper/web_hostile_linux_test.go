package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// These tests simulate hostile clients of a daemon process with its real sandbox. They
// check that other clients are served, not how fast.

func TestClosedConnectionEndsItsCode(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	for version, v := range d.visitors() {
		t.Run(version, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			res := v.must(v.call(ctx, lockHolder))
			for m := range messages(res.Body) {
				if m.Method == "notifications/progress" {
					break
				}
			}
			file, err := os.OpenFile(filepath.Join(d.workspace("local"), "held"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if !locked(t, file) {
				t.Fatal("the code runs, and its lock is free")
			}
			leave()
			res.Body.Close()
			awaitUnlock(t, file)
			if got := v.value("6 * 7"); got != "42" {
				t.Errorf("after it: %s", got)
			}
		})
	}
}

// lockHolder never ends; the kernel releases its lock when its process ends.
const lockHolder = `
import fcntl, time
file = open('held', 'w')
fcntl.lockf(file, fcntl.LOCK_EX)
progress(1, 2, 'on my way')
while True: time.sleep(0.01)`

func locked(t *testing.T, f *os.File) bool {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return lock.Type != syscall.F_UNLCK
}

// awaitUnlock blocks until the code that holds the lock has ended, before its own limit of
// 300 s.
func awaitUnlock(t *testing.T, f *os.File) {
	t.Helper()
	began := time.Now()
	for {
		lock := syscall.Flock_t{Type: syscall.F_WRLCK}
		err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &lock)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 250*time.Second {
			t.Errorf("the code ran on for %v", took)
		}
		return
	}
}

func TestConnectionBelongsToOneTenant(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	const alices, bobs = "alice-has-a-long-token", "bob-has-a-token-as-well"
	d := startServing(t, "", fmt.Sprintf("http: {tokens: {alice: %s, bob: %s}}\n", alices, bobs))
	alice, bob := d.visitOlder("Authorization", "Bearer "+alices), d.visitOlder("Authorization", "Bearer "+bobs)
	alice.value("write_file('secret.txt', 'of alice')")

	for _, tc := range []struct {
		name, authorization string
		status              int
	}{
		{"with the token of another", "Bearer " + bobs, http.StatusNotFound}, // as an unknown connection
		{"with a wrong token", "Bearer nobody-has-this-token", http.StatusUnauthorized},
		{"without a token", "", http.StatusUnauthorized},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			r, err := alice.request(t.Context(), method, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
				"Authorization", tc.authorization, "Last-Event-ID", "x_0")
			if err != nil {
				t.Fatal(err)
			}
			res := alice.must(http.DefaultClient.Do(r))
			res.Body.Close()
			if res.StatusCode != tc.status {
				t.Errorf("%s %s: %s, want %d", method, tc.name, res.Status, tc.status)
			}
		}
	}
	mallory := d.visit("Authorization", "Bearer nobody-has-this-token")
	res := mallory.must(mallory.call(t.Context(), "1"))
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token", `+
		`error_description="unknown token"` {
		t.Errorf("2026-07-28 with a wrong token: %s %q", res.Status, res.Header)
	}
	if got := alice.value("read_file('secret.txt')"); got != `"of alice"` {
		t.Errorf("alice reads %s", got)
	}
	for name, v := range map[string]*visitor{"2025-11-25": bob, "2026-07-28": d.visit("Authorization", "Bearer "+bobs)} {
		if got := v.value("list_files()"); got != `[]` {
			t.Errorf("%s: bob sees %s", name, got)
		}
	}
}

func TestLargeBodyIsRejected(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	visitors := d.visitors()
	for version, v := range visitors {
		for name, length := range map[string]int64{"announced": 1 << 30, "of unknown length": -1} {
			t.Run(version+" "+name, func(t *testing.T) {
				body := &spaces{left: 1 << 30}
				r, err := v.request(t.Context(), http.MethodPost, body)
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = length
				refused := make(chan int, 1)
				go func() { // the daemon may close the connection before the response is read
					defer close(refused)
					if res, err := http.DefaultClient.Do(r); err == nil {
						res.Body.Close()
						refused <- res.StatusCode
					}
				}()
				if got := v.value("6 * 7"); got != "42" {
					t.Errorf("beside it: %s", got)
				}
				if status, said := <-refused; said && status != http.StatusRequestEntityTooLarge {
					t.Errorf("status %d", status)
				}
				if taken := body.read.Load(); taken >= 1<<30 {
					t.Errorf("all %d bytes were taken", taken)
				}
			})
		}
	}
}

// spaces is a reader of the remaining number of spaces.
type spaces struct {
	left int64
	read atomic.Int64
}

// Read implements io.Reader.
func (s *spaces) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), s.left)
	for i := range p[:n] {
		p[i] = ' '
	}
	s.left -= n
	s.read.Add(n)
	return int(n), nil
}

func TestIdleConnectionsDoNotBlockOthers(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	visitors := d.visitors()
	head := "POST /mcp HTTP/1.1\r\nHost: " + d.addr + "\r\nContent-Type: application/json\r\n"
	for begin, count := range map[string]int{
		"": 1000,
		"GET /healthz HTTP/1.1\r\nHost: " + d.addr + "\r\n\r\n": 100, // then idle
		"POST /mcp HT":                          100,
		head:                                    100,
		head + "Content-Length: 500\r\n\r\n{\"": 100,
	} {
		for range count {
			c, err := net.Dial("tcp", d.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, begin); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 300 { // idle connections after the handshake
		d.visitOlder()
	}
	visitors["2025-11-25, new"] = d.visitOlder()
	for version, v := range visitors {
		if got := v.value("6 * 7"); got != "42" {
			t.Errorf("%s: %s", version, got)
		}
	}
}

func TestSlowReaderDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	visitors := d.visitors()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + aboutClient + `}}`
	request := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, "+
		"text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: %d\r\n\r\n%s", d.addr, len(body), body)
	go func() { // the response exceeds all buffers, so the daemon blocks
		_, _ = io.WriteString(c, strings.Repeat(request, 2000))
	}()
	var read []byte
	one := make([]byte, 1)
	for len(read) < len("HTTP/1.1 200 OK") { // one byte per call of the other client
		for version, v := range visitors {
			if got := v.value("6 * 7"); got != "42" {
				t.Errorf("%s: %s", version, got)
			}
		}
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatal(err)
		}
		read = append(read, one...)
	}
	if string(read) != "HTTP/1.1 200 OK" {
		t.Errorf("the slow one reads %q", read)
	}
}

func TestInvalidRequestsAreRejectedWithReason(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + aboutClient + `}}`
	for version, v := range d.visitors() {
		for name, c := range map[string]struct {
			body   string
			header []string
			want   int
		}{
			"half an object":      {`{"jsonrpc":"2.0",`, nil, http.StatusBadRequest},
			"no JSON":             {"hello", nil, http.StatusBadRequest},
			"nothing":             {"", nil, http.StatusBadRequest},
			"another JSON-RPC":    {`{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, nil, http.StatusBadRequest},
			"a number":            {"7", nil, http.StatusBadRequest},
			"deep nesting":        {strings.Repeat("[", 1<<16), nil, http.StatusBadRequest},
			"an obsolete version": {list, []string{"Mcp-Protocol-Version", "1999-01-01"}, http.StatusBadRequest},
			"a version to come":   {list, []string{"Mcp-Protocol-Version", "2099-01-01"}, http.StatusBadRequest},
			"no version at all":   {list, []string{"Mcp-Protocol-Version", "yesterday"}, http.StatusBadRequest},
			"a web page's":        {list, []string{"Origin", "http://evil.example"}, http.StatusForbidden},
			"another type":        {list, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		} {
			res := v.must(v.send(t.Context(), c.body, c.header...))
			said, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != c.want || len(said) == 0 {
				t.Errorf("%s, %s: %s %q, want %d", version, name, res.Status, said, c.want)
			}
		}
		if got := v.value("6 * 7"); got != "42" {
			t.Errorf("%s, after all of it: %s", version, got)
		}
	}
}

func TestOlderClientGetsSupportedVersion(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	v := startServing(t, "", "").visitOlder()
	for asked, answered := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"1999-01-01": "2025-11-25", "2099-01-01": "2025-11-25",
	} {
		v.header = nil
		res := v.must(v.send(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+asked+
			`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		said, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(said), `"protocolVersion":"`+answered+`"`) {
			t.Errorf("%s is answered by %s (%v)", asked, said, err)
		}
	}
}

// SIGHUP, from a closed terminal or an operator, does not end calls.
func TestHangupEndsNoCall(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	v := d.visit()
	answer := make(chan string, 1)
	go func() {
		answer <- v.value("import os, time\nwrite_file('began', '')\nwhile not os.path.exists('go'): time.sleep(0.01)\n'done'")
	}()
	for {
		if _, err := os.Stat(filepath.Join(d.workspace("local"), "began")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := syscall.Kill(d.pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := v.value("write_file('go', '')"); got == "" {
		t.Error("the next call has no answer")
	}
	if got := <-answer; got != `"done"` {
		t.Errorf("the call came to %s", got)
	}
}
