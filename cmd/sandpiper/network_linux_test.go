package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// hiddenKey is the secret of the API, which code must not see.
const hiddenKey = "sk-hidden-8f3a"

// api is an HTTP API on loopback that needs the secret.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	hold  chan struct{} // /hold answers when it is closed
}

func newAPI(t *testing.T) *api {
	a := &api{hold: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.calls = append(a.calls, r.Method+" "+r.URL.Path)
	a.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+hiddenKey:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v1/redirect":
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	case r.URL.Path == "/v1/moved":
		http.Redirect(w, r, "/v1/here", http.StatusFound)
	case r.URL.Path == "/v1/hold":
		<-a.hold
	case r.URL.Path == "/v1/large":
		for range 6 << 10 {
			_, _ = io.WriteString(w, strings.Repeat("0123456789abcde\n", 64))
		}
	default:
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("X-Echo", r.Header.Get("Authorization"))
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "path": r.URL.RequestURI(), "body": string(body),
			"agent": r.UserAgent(), "headers": r.Header})
	}
}

func (a *api) count(call string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.calls {
		if c == call {
			n++
		}
	}
	return n
}

// config returns the section that allows the API, with its secret in a file of dir.
func (a *api) config(t *testing.T, dir string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(hiddenKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(a.URL, "http://"), ":")
	return fmt.Sprintf("network:\n  allow:\n    - {host: localhost, scheme: http, port: %s, addresses: [127.0.0.0/8, '::1'], methods: "+
		"[GET, HEAD, POST, DELETE], paths: [/v1/*], secret: {header: Authorization, value: \"Bearer ${file:%s}\"}}\n", port,
		filepath.Join(dir, "key"))
}

// url returns the URL of the API as the rule names it.
func (a *api) url() string { return strings.Replace(a.URL, "127.0.0.1", "localhost", 1) }

// newNetwork serves a configuration that allows the API.
func newNetwork(t *testing.T, more string) (*api, *served) {
	t.Helper()
	needSandbox(t)
	a, dir := newAPI(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(a.config(t, dir)+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return a, serve(t, dir)
}

// auditLines returns the lines of the audit log of the daemon in dir that contain all words.
func auditLines(t *testing.T, dir string, words ...string) (found []string) {
	t.Helper()
	has := func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	}
	for _, line := range strings.Split(runIn(t, dir, 0, "audit", "tail", "-n", "5000", "--json"), "\n") {
		if has(line) {
			found = append(found, line)
		}
	}
	return found
}

// awaitAuditLines waits for n of the lines that auditLines returns: they are written in batches.
func awaitAuditLines(t *testing.T, n int, dir string, words ...string) (found []string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if found = auditLines(t, dir, words...); len(found) >= n || time.Now().After(end) {
			return found
		}
	}
}

func TestCodeSendsRequests(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	a, s := newNetwork(t, "")
	r := s.call("", strings.NewReplacer("URL", a.url(), "PORT", a.url()[strings.LastIndexByte(a.url(), ':')+1:], "KEY",
		fmt.Sprintf("%q", hiddenKey)).Replace(codeOfRequests))
	want := `[200,"/v1/a?x=1","{\"id\":7}","a=%C3%BC",["/v1/here","[secret]"],200,"[secret]",true,6291456,false]`
	if string(r.Result) != want {
		t.Errorf("got %s %s\nwant %s", r.Result, r.Error, want)
	}
	for _, w := range [][]string{{`"tool":"get"`, `"outcome":"answered"`}, {`"tool":"post"`, `"outcome":"answered"`},
		{`"tool":"head"`, `"outcome":"answered"`}} {
		lines := awaitAuditLines(t, 1, s.cmd.Dir, append(w, `"kind":"tool_call"`, `"server":"network"`, `"destination":"localhost"`)...)
		if len(lines) == 0 {
			t.Errorf("no line of the audit log has %v", w)
		}
		for _, line := range lines {
			if strings.Contains(line, "/v1/") || strings.Contains(line, hiddenKey) {
				t.Errorf("the audit log has a value: %s", line)
			}
		}
	}
}

const codeOfRequests = `
import urllib.request, http.client, json
r = fetch("URL/v1/a?x=1")
p = fetch("URL/v1/b", method="POST", json={"id": 7})
f = fetch("URL/v1/c", method="post", data={"a": "ü"})
with urllib.request.urlopen("URL/v1/moved") as u:
    moved = json.load(u)["path"], u.headers["X-Echo"]
c = http.client.HTTPConnection("localhost", PORT)
c.request("HEAD", "/v1/d")
head = c.getresponse()
large = fetch("URL/v1/large")
result = [r.status, r.json()["path"], p.json()["body"], f.json()["body"], moved, head.status, r.headers["x-echo"],
    large.path.startswith("/workspace/.results/"), len(large.content), KEY in repr([r.text, r.headers, p.text])]
`

// What no rule allows is refused before it is sent, and recorded without values.
func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	a, s := newNetwork(t, "policy: {rules: [{tool: network.post, when: 'args.url.endsWith(\"/blocked\")', decision: block}]}\n")
	r := s.call("", strings.ReplaceAll(`
import urllib.request, socket
result = []
def attempt(f):
    try:
        result.append(f())
    except Exception as e:
        result.append(f"{type(e).__name__}: {e}")
attempt(lambda: fetch("URL/admin").status)
attempt(lambda: fetch("URL/v1/x", method="PUT").status)
attempt(lambda: fetch("https://evil.example/?q=value").status)
attempt(lambda: fetch("http://169.254.169.254/").status)
attempt(lambda: fetch("URL/v1/redirect").status)
attempt(lambda: fetch("URL/v1/x", headers={"X-A": "1\r\nX-B: 2"}).status)
attempt(lambda: fetch("URL/v1/blocked", method="POST").status)
attempt(lambda: urllib.request.urlopen("https://evil.example/").status)
attempt(lambda: socket.create_connection(("evil.example", 25)).recv(10))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
`, "URL", a.url()))
	var got []string
	if err := json.Unmarshal(r.Result, &got); err != nil {
		t.Fatalf("%s %s %v", r.Result, r.Error, err)
	}
	for i, want := range []string{
		"the path /admin is not allowed", "the method PUT is not allowed", "the host evil.example is not allowed; the hosts are localhost",
		"the host 169.254.169.254 is not allowed", "the host 169.254.169.254 is not allowed", "the header X-A has a line break",
		"policy says block",
		"URLError: <urlopen error", "ConnectionError: only HTTP requests", "only HTTP requests",
	} {
		if !strings.Contains(got[i], want) {
			t.Errorf("%d: got %q, want %q", i, got[i], want)
		}
	}
	if r := s.call("", "import aiohttp"); !strings.Contains(r.raw, "use fetch(url)") {
		t.Error(r.raw)
	}
	if len(a.calls) != 1 {
		t.Errorf("the API got %v", a.calls)
	}
	if lines := awaitAuditLines(t, 6, s.cmd.Dir, `"kind":"decision"`, `"rule":"network:allow"`, `"decision":"block"`); len(lines) != 6 {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
	if lines := auditLines(t, s.cmd.Dir, "evil"); len(lines) > 1 || len(lines) == 1 && lines[0] != "" {
		t.Errorf("the audit log has a host that code has written: %v", lines)
	}
}

func TestDryRunPlansAPost(t *testing.T) {
	t.Parallel()
	a, s := newNetwork(t, "")
	got := s.tool("execute_code", string(asJSON(map[string]any{"dry_run": true,
		"code": fmt.Sprintf("fetch(%q)\nfetch(%q, method='POST', json={'id': 1})", a.url()+"/v1/a", a.url()+"/v1/b")})))
	if !strings.Contains(got, `"tool":"post"`) || !strings.Contains(got, "plan_id") || a.count("GET /v1/a") != 1 ||
		a.count("POST /v1/b") != 0 {
		t.Errorf("%s, %v", got, a.calls)
	}
}

func TestResumedExecutionDoesNotRepeatAPost(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	a, s := newNetwork(t, "")
	dir := s.cmd.Dir
	s.call("", "1")
	s.ask("", fmt.Sprintf("p = fetch(%q, method='POST', data='x')\nresult = p.json()['body'], fetch(%q).status", a.url()+"/v1/once",
		a.url()+"/v1/hold"))
	for a.count("GET /v1/hold") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	s.kill()
	close(a.hold)
	id := interrupted(t, dir)
	s = serve(t, dir)
	s.call("", "1")
	s.resume(id)
	r, ok := s.hear()
	if !ok || string(r.Result) != `["x",200]` || a.count("POST /v1/once") != 1 {
		t.Errorf("%s: %v %s, %v", id, ok, r.raw, a.calls)
	}
}

// A tenant without rules sees neither fetch nor the server, and the description of the tool is unchanged.
func TestNetworkIsOffByDefault(t *testing.T) {
	t.Parallel()
	a, s := newNetwork(t, "tenants: {local: {network: {allow: []}}}\n")
	listed := s.request("tools/list", "{}")
	if strings.Contains(listed, "fetch(") || !strings.Contains(listed, "no network") {
		t.Errorf("%s", listed)
	}
	r := s.call("", fmt.Sprintf(`
result = ["fetch" in globals(), search_tools("http request")]
try:
    call_tool("network", "get", url=%q)
except ToolError as e:
    result.append(str(e))
import urllib.request
try:
    urllib.request.urlopen(%[1]q)
except OSError as e:
    result.append(str(e))
`, a.url()+"/v1/a"))
	if got := string(r.Result); !strings.HasPrefix(got, "[false,") || strings.Contains(got, "network.get") || !strings.Contains(got,
		`there is no server \"network\"`) || !strings.Contains(got, "no network here") {
		t.Errorf("%s %s", r.Result, r.Error)
	}
	if len(a.calls) != 0 {
		t.Errorf("the API got %v", a.calls)
	}
}

// requests and httpx from the package index work unchanged, with a secret that code does not see.
func TestRequestsAndHTTPX(t *testing.T) {
	dir, tell := installedPackages(t, "packages_http")
	a := newAPI(t)
	f, err := os.OpenFile(filepath.Join(dir, "sandpiper.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(a.config(t, dir)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	code := strings.NewReplacer("URL", a.url(), "KEY", fmt.Sprintf("%q", hiddenKey)).Replace(`
import asyncio, httpx, requests
s = requests.Session()
a = [s.get("URL/v1/r", params={"i": i}).json()["path"] for i in range(2)]
p = requests.post("URL/v1/p", json={"a": 1}, timeout=5)
form = requests.post("URL/v1/f", files={"f": ("n.bin", b"\xff\x00")}).status_code
with requests.get("URL/v1/large", stream=True) as large:
    size = sum(len(c) for c in large.iter_content(65536))
try:
    requests.get("https://evil.example/")
except requests.ConnectionError as e:
    refused = "is not allowed" in str(e)
with httpx.Client(base_url="URL/v1") as c:
    h = c.post("/h", content=b"zz").json()["body"], c.get("/moved", follow_redirects=True).json()["path"]
async def main():
    async with httpx.AsyncClient() as c:
        return [r.json()["path"] for r in await asyncio.gather(*[c.get(f"URL/v1/{i}") for i in range(3)])]
again = await main()
result = [a, p.json()["body"], form, size, refused, h, again, dict(s.cookies), KEY in repr([p.text, p.headers])]
`)
	file := filepath.Join(dir, "code.py")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(tell("exec", "--json", file), &got); err != nil {
		t.Fatal(err)
	}
	want := `[["/v1/r?i=0","/v1/r?i=1"],"{\"a\": 1}",200,6291456,true,["zz","/v1/here"],["/v1/0","/v1/1","/v1/2"],{"a":"1"},false]`
	if string(got.Result) != want {
		t.Errorf("got  %s %s\nwant %s", got.Result, got.Error, want)
	}
}

// Tenants of one daemon have their own rules and secrets, which a reload changes.
func TestTenantsHaveTheirOwnSecrets(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.TrimPrefix(r.Header.Get("Authorization"), "secret of ")[:1])
	}))
	t.Cleanup(a.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(a.URL, "http://"), ":")
	const alice, bob, carol = "alices-token-alices-token-alices-1", "bobs-token-bobs-token-bobs-token-1",
		"carols-token-carols-token-carols-1"
	keys := t.TempDir()
	rule := func(name string) string {
		if err := os.WriteFile(filepath.Join(keys, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("{network: {allow: [{host: localhost, scheme: http, port: %s, addresses: [127.0.0.0/8, '::1'], secret: "+
			"{header: Authorization, value: \"secret of ${file:%s/%s}\"}}]}}", port, keys, name)
	}
	rule("Dora")
	config := fmt.Sprintf("http: {tokens: {alice: %s, bob: %s, carol: %s}}\ntenants:\n  alice: %s\n  bob: %s\n", alice, bob, carol,
		rule("Anna"), rule("Bert"))
	d := startServing(t, "", config)
	code := fmt.Sprintf("try:\n    result = fetch('http://localhost:%s/').text\nexcept Exception as e:\n    result = type(e).__name__",
		port)
	check := func(want map[string]string) {
		t.Helper()
		for range 3 {
			for token, want := range want {
				if got := d.visit("Authorization", "Bearer "+token).run("", code); string(got.Result) != want {
					t.Errorf("%s: %s %s, want %s", token[:4], got.Result, got.Error, want)
				}
			}
		}
	}
	check(map[string]string{alice: `"A"`, bob: `"B"`, carol: `"NameError"`})
	d.reload(strings.ReplaceAll(strings.Replace(config, "Anna", "Dora", 1), "  bob: ", "  carol: "), "the configuration was reloaded")
	check(map[string]string{alice: `"D"`, bob: `"NameError"`, carol: `"B"`})
}
