package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// A daemon with 1 GiB of memory survives the most expensive input of one tenant below each limit,
// many times at once, and answers another tenant within two seconds.
func TestOneTenantDoesNotTakeMemoryOfOthers(t *testing.T) {
	longtest.Skip(t)
	needSandbox(t)
	const alices, bobs = "alice-has-a-long-token", "bob-has-a-token-as-well"
	body := strings.Repeat("mail somebody@example.com the 0123456789 ", 4<<20/41)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer api.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(api.URL, "http://"), ":")
	script := filepath.Join(t.TempDir(), "script.json")
	upstreamtest.Write(t, script, upstreamtest.Script{
		Tools: []json.RawMessage{json.RawMessage(`{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)},
		Answers: map[string]json.RawMessage{"call read": json.RawMessage(`{"content":[{"type":"text","text":"` +
			strings.Repeat("abcdefghijklmno ", 31<<20/16) + `"}]}`)},
	})
	clients := ""
	for name, value := range upstreamtest.Env(script) {
		clients += name + ": " + value
	}
	d := startServing(t, limited(t, 1<<20), fmt.Sprintf(`
profile: full
http: {tokens: {alice: %s, bob: %s}}
servers: {library: {command: %s, env: {%s}, trusted: true}}
sandbox: {memory_mb: 600, max_timeout: 300s, tenant_concurrency: 6}
network: {allow: [{host: 127.0.0.1, scheme: http, port: %s, addresses: [127.0.0.0/8], methods: [GET, POST]}]}
`, alices, bobs, upstreamtest.Command(t), clients, port))
	d.mayFail = true
	t.Cleanup(func() {
		if _, death, found := strings.Cut(d.log.String(), "fatal error: "); found {
			t.Errorf("the daemon died: %.2000s", death)
		}
	})
	alice, bob := d.visit("Authorization", "Bearer "+alices), d.visit("Authorization", "Bearer "+bobs)
	for _, v := range []*visitor{alice, bob} {
		if got := v.answer(`{"code":"1+1"}`); !strings.Contains(got, `\"result\":2`) {
			t.Fatal(got)
		}
	}
	text := func(n int, unit string) string { return strings.Repeat(unit, n/len(unit)) }
	code := func(code string) string { return fmt.Sprintf(`{"code":%q,"timeout_seconds":60}`, code) }
	url := "http://127.0.0.1:" + port + "/"
	nested := "name: deep\nsteps:\n  - " + text(20<<10, "- ") + "x\n"
	for _, c := range []struct {
		name, tool, args string
		times            int
	}{
		{"a text with private values", "sanitize_pii", fmt.Sprintf(`{"text":%q}`, text(8<<20, "mail ada@example.com today, ")), 4},
		{"a text of different values", "sanitize_pii", fmt.Sprintf(`{"text":%q}`, numbered(8<<20, "u%d@example.com ")), 4},
		{"JSON of escaped strings", "sanitize_pii", fmt.Sprintf(`{"text":%q}`, "["+text(8<<20, `"\u0041",`)+"1]"), 4},
		{"bodies of HTTP responses", "execute_code", code(fmt.Sprintf("len(parallel(*[lambda: fetch(%q).text[:9]] * 60))", url)), 1},
		{"arguments of planned calls", "execute_code", strings.TrimSuffix(code(fmt.Sprintf(
			"body = 'x' * (15 << 20)\ntry: parallel(*[lambda: fetch(%q, 'POST', data=body)] * 40)\nexcept Exception as e: "+
				"print(repr(e)[:200])", url)), "}") + `,"dry_run":true}`, 2},
		{"answers of read tools in a dry run", "execute_code", strings.TrimSuffix(code(
			"from servers import library\nlen(parallel(*[lambda: len(library.read())] * 40))"), "}") + `,"dry_run":true}`, 1},
		{"code above its limit", "execute_code", code(text(30<<20, "x = 1 # ")), 6},
		{"variables above their limit", "execute_code", fmt.Sprintf(`{"code":"1","context_vars":{"a":%q}}`, text(30<<20, "a b c d ")), 6},
		{"a nested workflow", "save_workflow", fmt.Sprintf(`{"source":%q}`, nested), 6},
		{"large output", "execute_code", code("for i in range(20): print('mail ada@example.com ' * 50000)"), 32},
		{"a large result", "execute_code", code("['mail ada@example.com ' * 100] * 10000"), 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			done, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				askUntil(t, bob, done)
			}()
			var all sync.WaitGroup
			for range c.times {
				all.Go(func() { useAndDrop(t, alice, c.tool, c.args) })
			}
			all.Wait()
			close(done)
			<-ended
			t.Logf("the daemon uses %s", residentOf(t, d.pid))
		})
	}
}

// limited returns a program that runs the one under test with so many KiB of memory for data. The
// processes of the sandbox set their own limit.
func limited(t *testing.T, kib int) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(own, filepath.Join(dir, "sandpiper")); err != nil { // see TestMain
		t.Fatal(err)
	}
	program := filepath.Join(dir, "limited")
	if err := os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nulimit -S -d %d\nexec %s/sandpiper \"$@\"\n", kib, dir),
		0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// askUntil runs 1+1 again and again, each time within two seconds.
func askUntil(t *testing.T, v *visitor, done <-chan struct{}) {
	slowest, n := time.Duration(0), 0
	for ; ; n++ {
		select {
		case <-done:
			if t.Logf("%d calls, the slowest took %v", n, slowest); slowest > 2*time.Second {
				t.Errorf("1+1 of another tenant took %v", slowest)
			}
			return
		default:
		}
		began := time.Now()
		res, err := v.call(t.Context(), "1+1")
		if err != nil {
			t.Errorf("1+1 of another tenant: %v", err)
			return
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(b), `\"result\":2`) {
			t.Errorf("1+1 of another tenant: %s %.300s %v", res.Status, b, err)
			return
		}
		slowest = max(slowest, time.Since(began))
	}
}

// useAndDrop calls a tool and reads the answer, which may be a refusal.
func useAndDrop(t *testing.T, v *visitor, tool, args string) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	res, err := v.tool(ctx, tool, args)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			t.Errorf("no answer: %v", err)
		}
		return // the server closes the connection of a body that it does not read
	}
	defer res.Body.Close()
	begin := make([]byte, 600)
	n, _ := io.ReadFull(res.Body, begin)
	t.Logf("%s %s", res.Status, begin[:n])
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Errorf("no answer: %v", err)
	}
}

func numbered(size int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// residentOf returns the resident memory of a process, now and at most.
func residentOf(t *testing.T, pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatalf("the daemon has ended: %v", err)
	}
	all := ""
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
			all += strings.Join(strings.Fields(line), " ") + " "
		}
	}
	return all
}
