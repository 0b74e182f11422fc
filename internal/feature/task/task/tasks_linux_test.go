package task_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// built has the program in sandpiper, the example servers in servers, and the cache of all
// programs in cache. TestMain deletes it.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sandpiper-task-")
	if err != nil {
		panic(err)
	}
	built = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the program and the example servers. EXAMPLE_SERVERS replaces the latter.
var build = sync.OnceValue(func() error {
	for out, packages := range map[string]string{"sandpiper": "../../../../cmd/sandpiper", "servers/": "../../../../examples/servers/..."} {
		if dir := os.Getenv("EXAMPLE_SERVERS"); dir != "" && out == "servers/" {
			if err := os.Symlink(dir, filepath.Join(built, "servers")); err != nil {
				return err
			}
			continue
		}
		if said, err := exec.Command("go", "build", "-o", built+"/"+out, packages).CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %v\n%s", packages, err, said)
		}
	}
	return nil
})

// place is a working directory with a configuration of servers and no data.
type place struct {
	dir string
	env []string
}

// newPlace configures some servers of servers.yaml, or all if none are given. It skips the
// test if one of them is not installed.
func newPlace(t *testing.T, servers ...string) place {
	t.Helper()
	longtest.SkipSlow(t)
	modules := ""
	if len(servers) == 0 || slices.ContainsFunc(servers, func(s string) bool {
		return s == "everything" || s == "files" ||
			s == "memory"
	}) {
		modules = string(wiretest.Installed(t, ".bin/mcp-server-everything", ".bin/mcp-server-filesystem", ".bin/mcp-server-memory"))
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	p := place{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.dir, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "SERVERS="+filepath.Join(built, "servers"), "MCP_CLIENTS="+modules, "WORK="+p.dir,
		"SANDPIPER_CONFIG="+p.configure(t, servers),
		"XDG_CACHE_HOME="+filepath.Join(built, "cache"), "XDG_CONFIG_HOME="+filepath.Join(p.dir, "config"),
		"XDG_DATA_HOME="+filepath.Join(p.dir, "data"))
	return p
}

// configure writes the configuration and returns its path.
func (p place) configure(t *testing.T, servers []string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/tasks/servers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	all := config["servers"].(map[string]any)
	for name := range all {
		if len(servers) > 0 && !slices.Contains(servers, name) {
			delete(all, name)
		}
	}
	if data, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.dir, "sandpiper.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command returns a command of the program. It is not bound to the context of a test, which
// ends before the cleanup that stops a daemon.
func (p place) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(built, "sandpiper"), args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// needSandbox skips the test if code cannot be executed here, or fails it if that is required.
func needSandbox(t *testing.T) {
	t.Helper()
	said, err := newPlace(t, "calculator").command("exec", "-c", "1").CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_SANDBOX") != "":
		t.Fatalf("code cannot be executed here: %s", said)
	default:
		t.Skipf("code cannot be executed here: %s", said)
	}
}

// client is an MCP client of a daemon over stdio.
type client struct {
	t    *testing.T
	send func(method string, params any) json.RawMessage // a request; returns its result
	stop func()                                          // waits for the end
}

func (p place) serve(t *testing.T) client {
	t.Helper()
	cmd := p.command("serve")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve ended with %v: %s", err, &stderr)
		}
	})
	t.Cleanup(stop)
	lines, id := bufio.NewReader(out), 0
	c := client{t: t, stop: stop, send: func(method string, params any) json.RawMessage {
		id++
		if err := json.NewEncoder(in).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
			t.Fatal(err)
		}
		for {
			var m struct {
				ID     int
				Result json.RawMessage
			}
			line, err := lines.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &m)
			}
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			if m.ID == id {
				return m.Result
			}
		}
	}}
	c.send("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	return c
}

// outcome is the answer of execute_code.
type outcome struct {
	Success   bool
	Result    any
	Output    []any
	Error     any
	Execution string `json:"execution_id"`
}

// run runs code.
func (c client) run(code string) (o outcome) {
	c.t.Helper()
	var answer struct{ Content []struct{ Text string } }
	err := json.Unmarshal(c.send("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"code": code}}), &answer)
	if err == nil && len(answer.Content) == 1 {
		err = json.Unmarshal([]byte(answer.Content[0].Text), &o)
	}
	if err != nil || o.Execution == "" {
		c.t.Fatalf("execute_code: %+v, %v", answer, err)
	}
	if o.Result == nil && len(o.Output) > 0 {
		o.Result = o.Output
	}
	return o
}

// execute runs code, which must not fail.
func (c client) execute(code string) outcome {
	c.t.Helper()
	o := c.run(code)
	if !o.Success {
		c.t.Fatalf("setup or reference ended with %v", o.Error)
	}
	return o
}

// prepare makes the files and data of a task.
func (p place) prepare(c client, s sentence) {
	c.t.Helper()
	for name, content := range s.Setup.Files {
		path := filepath.Join(p.dir, "files", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	if s.Setup.Code != "" {
		c.execute(s.Setup.Code)
	}
}

// files returns the content of the served directory.
func (p place) files(t *testing.T) map[string]string {
	t.Helper()
	found, root := map[string]string{}, os.DirFS(filepath.Join(p.dir, "files"))
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// calls returns the tools that an execution called, from the audit log of a daemon that ended.
func (p place) calls(t *testing.T, execution string) (tools []string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(p.dir, "data", "sandpiper", "audit", "*.jsonl"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no audit log, %v", err)
	}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var l struct{ Kind, Execution, Server, Tool string }
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			if l.Kind == "tool_call" && l.Execution == execution {
				tools = append(tools, l.Server+"."+l.Tool)
			}
		}
	}
	return tools
}

// servers returns the servers of the tools of a task.
func (s sentence) servers() (servers []string) {
	for _, name := range s.Tools {
		server, _, _ := strings.Cut(name, ".")
		servers = append(servers, server)
	}
	return servers
}

// The tools of the tasks exist, and a missing value is one that its tool requires.
func TestTaskToolsExist(t *testing.T) {
	p := newPlace(t)
	needSandbox(t)
	if said, err := p.command("tools", "sync").CombinedOutput(); err != nil {
		t.Fatalf("tools sync: %v\n%s", err, said)
	}
	tasks, missing := append(sentences(t, "dev.json"), sentences(t, "heldout.json")...), map[string][]string{}
	for _, s := range tasks {
		for _, name := range s.Tools {
			missing[name] = append(missing[name], s.Want.Missing...)
		}
	}
	names, err := json.Marshal(slices.Sorted(maps.Keys(missing)))
	if err != nil {
		t.Fatal(err)
	}
	required, _ := p.serve(t).execute(fmt.Sprintf("result = {n: get_tool_definition(n)['input_schema'].get('required', []) for n in %s}",
		names)).Result.(map[string]any)
	for name, values := range missing {
		list, exists := required[name].([]any)
		if !exists {
			t.Errorf("%s does not exist", name)
		}
		for _, value := range values {
			if !slices.Contains(list, any(value)) {
				t.Errorf("%s requires %q, and not %q", name, list, value)
			}
		}
	}
}

// Each reference calls the tools of its task, and what is wanted holds after it and not
// before: of all tasks in a long test, otherwise of every eighth.
func TestTaskReferences(t *testing.T) {
	needSandbox(t)
	for n, s := range append(sentences(t, "dev.json"), sentences(t, "heldout.json")...) {
		if s.Reference == "" || n%8 != 0 && !longtest.Enabled() { // each starts a daemon
			continue
		}
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, s.servers()...)
			c := p.serve(t)
			p.prepare(c, s)
			if p.solved(t, c, s, nil) {
				t.Error("what is wanted holds before the program is run")
			}
			o := c.execute(s.Reference)
			if !p.solved(t, c, s, o.Result) {
				t.Errorf("what is wanted does not hold; the result is %v", o.Result)
			}
			c.stop()
			got, want := p.calls(t, o.Execution), slices.Sorted(slices.Values(s.Tools))
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("calls (-want +got):\n%s", d)
			}
		})
	}
}

// solved judges the result of a program, or, with check, the data that it left.
func (p place) solved(t *testing.T, c client, s sentence, result any) bool {
	t.Helper()
	if s.Want.Check != "" {
		result = c.run(s.Want.Check).Result // nil if there is no such data
	}
	return s.Want.holds(result, p.files(t))
}
