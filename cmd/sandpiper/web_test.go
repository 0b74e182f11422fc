package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
)

// daemonProcess is a process of sandpiper serve --http.
type daemonProcess struct {
	t    *testing.T
	addr string // host:port
	url  string // of MCP
	home string
	log  *logtest.Log
	pid  int
	env  []string

	ended chan struct{} // closed when the process has ended
	exit  int           // the exit code that is expected

	mayFail bool // errors in the log are expected
}

// serveHTTP starts program, or the program under test if it is empty, with a configuration.
// When the test ends it stops the process, which must exit on its own.
func startServing(t *testing.T, program, config string, args ...string) *daemonProcess {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME") // of needSandbox
	d := &daemonProcess{t: t, home: t.TempDir(), log: &logtest.Log{}, ended: make(chan struct{})}
	file := filepath.Join(d.home, "sandpiper.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if program == "" { // see TestMain
		var err error
		if program, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = append([]string{"sandpiper", "serve", "--http", "127.0.0.1:0"}, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.Dir = d.home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "XDG_CACHE_HOME=" + cache,
		"XDG_DATA_HOME=" + filepath.Join(d.home, "data"), "XDG_CONFIG_HOME=" + filepath.Join(d.home, "config"), "SANDPIPER_CONFIG=" + file,
		"OTEL_BSP_SCHEDULE_DELAY=100"} // spans are not exported in batches of 5 s
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.env = cmd.Env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.pid = cmd.Process.Pid
	lines := bufio.NewReader(said)
	first, _ := lines.ReadString('\n')
	go func() {
		defer close(d.ended)
		_, _ = io.Copy(d.log, lines)
	}()
	t.Cleanup(func() {
		stop()
		<-d.ended
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != d.exit {
			t.Errorf("the daemon ended with %v", err)
		}
		if !d.mayFail && strings.Contains(d.log.String(), "level=ERROR") {
			t.Errorf("the log of the daemon:\n%s", d.log)
		}
	})
	var ok bool
	if d.url, ok = strings.CutPrefix(strings.TrimSpace(first), "MCP at "); !ok {
		t.Fatalf("the daemon begins with %q", first)
	}
	_, d.addr, _ = strings.Cut(strings.TrimSuffix(d.url, "/mcp"), "://")
	return d
}

// command runs another sandpiper process with the same configuration and returns its output.
func (d *daemonProcess) command(t *testing.T, args ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Args, cmd.Dir, cmd.Env = append([]string{"sandpiper"}, args...), d.home, d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sandpiper %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// workspace returns the workspace directory of a tenant.
func (d *daemonProcess) workspace(tenant string) string {
	return filepath.Join(d.home, "data", "sandpiper", "workspaces", tenant)
}

// visitor is a client of a daemon with one of the protocol versions.
type visitor struct {
	*daemonProcess
	modern bool
	header []string // names and values
	calls  atomic.Int64
}

const aboutClient = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"progressToken":"p"}`

// visit returns a client of version 2026-07-28, which needs no handshake.
func (d *daemonProcess) visit(header ...string) *visitor {
	return &visitor{daemonProcess: d, modern: true, header: append(header, "Mcp-Protocol-Version", "2026-07-28")}
}

// visitOlder connects a client of version 2025-11-25.
func (d *daemonProcess) visitOlder(header ...string) *visitor {
	d.t.Helper()
	v := &visitor{daemonProcess: d, header: header}
	res := v.must(v.send(d.t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatalf("initialize: %s %v", res.Status, err)
	}
	v.header = append(header, "Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
	v.must(v.send(d.t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)).Body.Close()
	return v
}

// visitors returns a client of each protocol version.
func (d *daemonProcess) visitors() map[string]*visitor {
	return map[string]*visitor{"2026-07-28": d.visit(), "2025-11-25": d.visitOlder()}
}

func (v *visitor) must(res *http.Response, err error) *http.Response {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	return res
}

// send posts a message; the given headers replace the visitor's own.
func (v *visitor) send(ctx context.Context, body string, header ...string) (*http.Response, error) {
	r, err := v.request(ctx, http.MethodPost, strings.NewReader(body), header...)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

func (v *visitor) request(ctx context.Context, method string, body io.Reader, header ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	all := append(append([]string{}, v.header...), header...)
	for i := 0; i < len(all); i += 2 {
		r.Header.Set(all[i], all[i+1])
	}
	return r, nil
}

// call starts execute_code.
func (v *visitor) call(ctx context.Context, code string) (*http.Response, error) {
	return v.tool(ctx, "execute_code", fmt.Sprintf(`{"code":%q,"timeout_seconds":300}`, code))
}

// tool starts a call of a tool.
func (v *visitor) tool(ctx context.Context, name, args string) (*http.Response, error) {
	about := `"_meta":{"progressToken":"p"}`
	var header []string
	if v.modern {
		about, header = aboutClient, []string{"Mcp-Method", "tools/call", "Mcp-Name", name}
	}
	return v.send(ctx, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,%s}}`,
		100+v.calls.Add(1), name, args, about), header...) // the id of the previous call may still be in use
}

// value runs code and returns its result as JSON.
func (v *visitor) value(code string) string {
	v.t.Helper()
	res := v.must(v.call(v.t.Context(), code))
	defer res.Body.Close()
	for m := range messages(res.Body) {
		if m.ID == nil || len(m.Result.Content) == 0 {
			continue
		}
		var answer struct{ Result json.RawMessage }
		if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &answer); err != nil {
			v.t.Errorf("%v in %s", err, m.Result.Content[0].Text)
		}
		if answer.Result == nil {
			v.t.Logf("no result in %s", m.Result.Content[0].Text)
		}
		return string(answer.Result)
	}
	v.t.Errorf("%s, and no answer", res.Status)
	return ""
}

// message is a message in an event stream.
type message struct {
	ID     any
	Method string
	Error  *struct{ Code int }
	Result struct{ Content []struct{ Text string } }
}

// messages returns the messages of an event stream, or the single message of the body.
func messages(body io.Reader) func(func(message) bool) {
	return func(yield func(message) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var m message
			data := strings.TrimPrefix(lines.Text(), "data: ")
			if json.Unmarshal([]byte(data), &m) == nil && !yield(m) {
				return
			}
		}
	}
}
