package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main()
	os.Exit(m.Run())
}

// passingOn is a daemon of the profile passthrough with servers that do what files
// in the directory say. Nothing of it may ask for a sandbox.
func passingOn(t *testing.T, dir string, scripts map[string]upstreamtest.Script) daemon.Config {
	t.Helper()
	cfg := daemon.Config{Features: []daemon.Feature{passthrough.Feature().Feature},
		Config: config.Config{Profile: "passthrough", DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache")},
		Backend: func(context.Context) (sandbox.Backend, error) {
			t.Error("a sandbox was made")
			return nil, errors.New("there is none")
		}}
	for name, script := range scripts {
		file := filepath.Join(dir, name)
		upstreamtest.Write(t, file, script)
		cfg.Servers = append(cfg.Servers, config.Server{Name: name, Command: upstreamtest.Command(t), Env: upstreamtest.Env(file)})
	}
	return cfg
}

// passing starts that, and has its servers listed.
func passing(t *testing.T, dir string, scripts map[string]upstreamtest.Script) *daemon.Daemon {
	t.Helper()
	d := start(t, passingOn(t, dir, scripts))
	for name, script := range scripts {
		if script.Silent { // the first list is what waits
			return d
		}
		// A list waits some seconds for servers, which a busy machine takes to start them.
		if _, err := d.Servers.List(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	return d
}

func scripted(tools ...string) (s upstreamtest.Script) {
	s.Answers = map[string]json.RawMessage{}
	for _, name := range tools {
		s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name))
		s.Answers["call "+name] = fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, name+" answers")
	}
	return s
}

// until reads lines until one has all parts.
func (s session) until(parts ...string) string {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("waiting for %q: %v", parts, err)
		}
		has := true
		for _, p := range parts {
			has = has && strings.Contains(line, p)
		}
		if has {
			return line
		}
	}
}

func (s session) say(message string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, message+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s session) greet() session {
	s.t.Helper()
	s.say(hello)
	s.until(`"serverInfo"`)
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

const listTools = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`

func TestFirstListDoesNotWaitForHungServer(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	mute := scripted("never")
	mute.Silent = true
	d := passing(t, t.TempDir(), map[string]upstreamtest.Script{"good": scripted("echo"), "hangs": mute})
	s := serve(t, t.Context(), d).greet()
	begun := time.Now()
	s.say(listTools)
	list := s.until(`"id":7`)
	if strings.Contains(list, "never") {
		t.Errorf("got %s", list)
	}
	if waited := time.Since(begun); waited > 20*time.Second { // of the 30 that a start may take
		t.Errorf("waited %s", waited)
	}
	for !strings.Contains(list, `"name":"echo"`) { // the machine is busy
		s.say(listTools)
		list = s.until(`"id":7`)
	}
	s.say(call("echo", `{}`))
	s.until(`"echo answers"`)
	s.say(call("never", `{}`))
	s.until(`there is no tool \"never\"`, `not known yet are the tools of hangs`)
}

func TestListChangesAreNotified(t *testing.T) {
	dir := t.TempDir()
	d := passing(t, dir, map[string]upstreamtest.Script{"one": scripted("announce")})
	older := serve(t, t.Context(), d).greet()
	older.say(listTools)
	older.until(`"id":7`, `"announce"`)

	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	newer := serve(t, t.Context(), d)
	newer.say(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"promptsListChanged":true},` + meta + `}}`)
	newer.until(`"notifications/subscriptions/acknowledged"`, `"toolsListChanged":true`, `"promptsListChanged":true`)
	// One that asked for news of prompts alone hears of nothing else.
	choosy := serve(t, t.Context(), d)
	choosy.say(`{"jsonrpc":"2.0","id":"c","method":"subscriptions/listen","params":{"notifications":{"promptsListChanged":true},` + meta +
		`}}`)
	choosy.until(`"notifications/subscriptions/acknowledged"`)

	script := scripted("announce", "added")
	script.Prompts = []json.RawMessage{json.RawMessage(`{"name":"fresh"}`)}
	upstreamtest.Write(t, filepath.Join(dir, "one"), script)
	older.say(call("announce", `{}`))
	heard := map[session]string{}
	for _, s := range []session{older, newer} {
		for range 4 { // the call's own answer is among the older's
			if s == newer && len(heard[s]) > 0 && strings.Count(heard[s], "list_changed") == 3 {
				break
			}
			heard[s] += s.until()
		}
		for _, what := range []string{"tools", "resources", "prompts"} {
			if !strings.Contains(heard[s], "notifications/"+what+"/list_changed") {
				t.Errorf("not told of %s: %s", what, heard[s])
			}
		}
	}
	if !strings.Contains(heard[newer], `"io.modelcontextprotocol/subscriptionId":"l"`) {
		t.Errorf("not of its subscription: %s", heard[newer])
	}
	if first := choosy.until(); !strings.Contains(first, "notifications/prompts/list_changed") {
		t.Errorf("told of %s", first)
	}
	older.say(listTools)
	older.until(`"id":7`, `"added"`)
	older.say(`{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)
	older.until(`"id":8`, `"fresh"`)
}

func TestServerRestartsAfterCrashInCall(t *testing.T) {
	d := passing(t, t.TempDir(), map[string]upstreamtest.Script{"one": scripted("die", "echo"), "two": scripted("other")})
	s := serve(t, t.Context(), d).greet()
	s.say(listTools)
	s.until(`"id":7`, `"die"`, `"other"`)
	s.say(call("die", `{}`))
	s.until(`"isError":true`, `server \"one\" exited while calling die`, "the disk is on fire")
	s.say(call("echo", `{}`))
	s.until("echo answers")
	s.say(call("other", `{}`))
	s.until("other answers")
}

func TestProgressAndCancellationAreForwarded(t *testing.T) {
	dir := t.TempDir()
	d := passing(t, dir, map[string]upstreamtest.Script{"one": scripted("wait")})
	s := serve(t, t.Context(), d).greet()
	s.say(listTools)
	s.until(`"id":7`)
	s.say(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"progressToken":"mine"}}}`)
	s.until(`"notifications/progress"`, `"progressToken":"mine"`, `"progress":1`, `"total":2`, `"message":"waiting"`)
	s.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	appears(t, filepath.Join(dir, "cancelled"))
}

func TestServerRequestsAreForwardedToClient(t *testing.T) {
	script := scripted("ask")
	script.Questions = []json.RawMessage{json.RawMessage(`{"message":"Who?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"},"d":{"type":"integer","default":7}}}}`)}
	d := passing(t, t.TempDir(), map[string]upstreamtest.Script{"one": script})
	shows := serve(t, t.Context(), d)
	shows.say(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	shows.until(`"serverInfo"`)
	shows.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	shows.say(call("ask", `{}`))
	question := shows.until(`"elicitation/create"`, `"The tool ask asks: Who?"`)
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(question), &m); err != nil {
		t.Fatal(err)
	}
	shows.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"n":"Ada"}}}`, m.ID))
	shows.until(`[{\"action\":\"accept\",\"content\":{\"d\":7,\"n\":\"Ada\"}}]`)
	shows.say(call("ask", `{}`))
	if err := json.Unmarshal([]byte(shows.until(`"elicitation/create"`)), &m); err != nil {
		t.Fatal(err)
	}
	shows.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, m.ID))
	shows.until(`"isError":true`, `the client did not show it`)

	blind := serve(t, t.Context(), d).greet()
	blind.say(call("ask", `{}`))
	blind.until(`"isError":true`, `the caller of this tool cannot answer questions`)
}

// A call that waits for an approval is no error: clients give up after two of them. One of a tool with an output
// schema is, since clients refuse a result that has no structured content.
func TestPassedCallThatWaitsIsNoError(t *testing.T) {
	script := scripted("plain", "typed")
	script.Tools[1] = []byte(`{"name":"typed","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`)
	cfg := passingOn(t, t.TempDir(), map[string]upstreamtest.Script{"one": script})
	cfg.Policy.Default = policy.Ask
	d := start(t, cfg)
	if _, err := d.Servers.List(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	s := serve(t, t.Context(), d).greet()
	s.say(call("plain", `{}`))
	if text := s.until(`\"error_type\":\"approval_required\"`, `sandpiper approvals approve`); strings.Contains(text, `"isError":true`) {
		t.Error(text)
	}
	s.say(call("typed", `{}`))
	s.until(`\"error_type\":\"approval_required\"`, `"isError":true`)
}

func appears(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", file)
		}
	}
}

// What another process accepts is noticed, and told.
func TestToolAcceptedByAnotherProcessIsListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scripts := map[string]upstreamtest.Script{"one": scripted("announce")}
	d := passing(t, dir, scripts)
	s := serve(t, t.Context(), d).greet()
	s.say(listTools)
	s.until(`"id":7`, `"announce"`)
	changed := scripted("announce")
	changed.Tools[0] = json.RawMessage(`{"name":"announce","description":"new words","inputSchema":{"type":"object"}}`)
	upstreamtest.Write(t, filepath.Join(dir, "one"), changed)
	s.say(call("announce", `{}`))
	s.until("notifications/tools/list_changed") // of the first list, or of the tool that is held
	for listed := true; listed; {
		s.say(listTools)
		listed = strings.Contains(s.until(`"id":7`), `"announce"`)
	}
	s.say(call("announce", `{}`))
	s.until(`"isError":true`, "sandpiper tools accept one announce")

	cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(dir, "data"), Servers: []config.Server{
		{Name: "one", Command: upstreamtest.Command(t), Env: upstreamtest.Env(filepath.Join(dir, "one"))}}}}
	if _, err := start(t, cfg).Servers.Accept(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	s.until("notifications/tools/list_changed")
	s.say(listTools)
	s.until(`"id":7`, "new words")
}

func TestManyHTTPClients(t *testing.T) {
	d := passing(t, t.TempDir(), map[string]upstreamtest.Script{"one": scripted("echo")})
	ctx, stop := context.WithCancel(t.Context())
	ln, err := d.HTTP.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.HTTP.Serve(ctx, ln) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if res, err := http.Get("http://" + ln.Addr().String() + "/readyz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("not ready: %v %v", res, err)
	}
	answers := make(chan string)
	const clients = 16
	for range clients {
		go func() {
			answers <- post(t, "http://"+ln.Addr().String()+"/mcp", "tools/call", `"name":"echo","arguments":{},`)
		}()
	}
	for range clients {
		if got := <-answers; !strings.Contains(got, "echo answers") {
			t.Errorf("got %s", got)
		}
	}
	home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Release(t.Context())
	if r, err := home.Usage.Find(t.Context(), ""); err != nil || r.Conversations != 0 || r.Calls != 0 {
		t.Errorf("the meter counted %+v, %v", r, err)
	}
}

// post sends one request of protocol version 2026-07-28.
func post(t *testing.T, url, method, params string) string {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": "echo"} {
		req.Header.Set(key, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

func TestLargeListIsPaged(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	var all []string
	for i := range 5000 {
		all = append(all, fmt.Sprintf("tool_%04d", i))
	}
	s := serve(t, t.Context(), passing(t, t.TempDir(), map[string]upstreamtest.Script{"one": scripted(all...)})).greet()
	var got []string
	cursor, pages := "", 0
	for {
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":%q}}`, cursor))
		var page struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		if err := json.Unmarshal([]byte(s.until(`"id":7`)), &page); err != nil {
			t.Fatal(err)
		}
		for _, tool := range page.Result.Tools {
			got = append(got, tool.Name)
		}
		pages++
		if cursor = page.Result.NextCursor; cursor == "" {
			break
		}
	}
	if d := cmp.Diff(all, got); d != "" || pages != 10 {
		t.Errorf("%d pages (-want +got):\n%s", pages, d)
	}
	s.say(call("tool_4999", `{}`))
	s.until("tool_4999 answers")
}

func TestServerIsListedAgainAtFirstCall(t *testing.T) {
	dir := t.TempDir()
	passing(t, dir, map[string]upstreamtest.Script{"one": scripted("echo")})
	later := passingOn(t, dir, map[string]upstreamtest.Script{"one": scripted("echo", "added")})
	s := serve(t, t.Context(), start(t, later)).greet()
	s.say(listTools)
	if list := s.until(`"id":7`); strings.Contains(list, "added") {
		t.Fatalf("it was started for a list: %s", list)
	}
	s.say(call("echo", `{}`))
	for list := ""; !strings.Contains(list, `"added"`); {
		s.until("tools/list_changed")
		s.say(listTools)
		list = s.until(`"id":7`)
	}
}
