package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/report"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// The upstream servers: one that returns its argument, and one that reads a file.
const (
	everything = "@modelcontextprotocol/server-everything"
	filesystem = "@modelcontextprotocol/server-filesystem"
)

// sequentialCalls is the number of upstream calls of one execution, and callers the
// number of concurrent executions with one call each.
const (
	sequentialCalls = 200
	callers         = 16
)

// server is an MCP server that executes code with the tools of upstream servers.
type server struct {
	name, method string
	command      func(context.Context) *exec.Cmd
	tool         string // executes its argument "code"
	sum          string
	call         string // calls echo once
	calls        string // calls echo sequentialCalls times and adds the lengths of the answers
	read         string // reads the file, decodes it, and returns the number of items and a sum
	skipped      error

	running *exec.Cmd
	session *mcp.ClientSession
	memory  int64

	sums, callTimes, crowds, reads, starts turns
}

// The results that every server must return.
var (
	echoed  = "Echo: 7"
	lengths = func() string {
		n := 0
		for i := range sequentialCalls {
			n += len("Echo: " + strconv.Itoa(i))
		}
		return strconv.Itoa(n)
	}()
	fileItems = 10_000
	contents  = fmt.Sprintf("[%d,%d]", fileItems, 3*fileItems*(fileItems-1)/2)
)

// writeItems writes the file of 1.2 MB that the executions read.
func writeItems(path string) error {
	type item struct {
		ID    int    `json:"id"`
		Name  string `json:"name"`
		Value int    `json:"value"`
		Note  string `json:"note"`
	}
	items := make([]item, fileItems)
	for i := range items {
		items[i] = item{i, "item " + strconv.Itoa(i), 3 * i, strings.Repeat("x", 60)}
	}
	text, err := json.Marshal(items)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// servers returns Sandpiper and the peers, ready to be started or skipped.
func (h *environment) servers(ctx context.Context, baseline string) []*server {
	file := filepath.Join(h.data, "items.json")
	if err := errors.Join(h.npm(ctx), writeItems(file)); err != nil {
		return []*server{{name: "upstream servers", skipped: err}}
	}
	all := []*server{h.sandpiperServer(ctx, "sandpiper", h.binary, file, false),
		h.sandpiperServer(ctx, "sandpiper, servers trusted", h.binary, file, true)}
	if baseline != "" {
		all = append(all, h.sandpiperServer(ctx, "sandpiper, "+filepath.Base(baseline), baseline, file, false))
	}
	return append(all, h.codeMode(ctx, file), h.toolplane(ctx, file), h.utcp(file))
}

// upstreams returns the configuration of the upstream servers, by name.
func (h *environment) upstreams() map[string]map[string]any {
	program := func(name string, args ...string) map[string]any {
		return map[string]any{"command": h.node22(), "args": append([]string{filepath.Join(h.cache, "node_modules", name, "dist/index.js")},
			args...)}
	}
	return map[string]map[string]any{"everything": program(everything), "filesystem": program(filesystem, h.data)}
}

func (h *environment) sandpiperServer(ctx context.Context, name, binary, file string, trusted bool) *server {
	servers := h.upstreams()
	for _, s := range servers {
		s["trusted"] = trusted
	}
	dir := filepath.Join(h.dir, strings.ReplaceAll(name, " ", "-"))
	config, err := rig.WriteConfig(dir, rig.Args{"servers": servers})
	r := rig.New(rig.Config{Binary: binary, Dir: dir, Cache: filepath.Join(h.dir, "cache")})
	if err == nil {
		err = r.Ready(ctx) // installs Python
	}
	return &server{
		name: name, method: "a new sandboxed process, CPython", skipped: err, tool: "execute_code",
		command: func(ctx context.Context) *exec.Cmd { return r.Command(ctx, "serve", "--config", config) },
		sum:     "result = 1 + 1",
		call:    "from servers.everything import echo\nresult = echo(message='7')",
		calls: fmt.Sprintf("from servers.everything import echo\nresult = sum(len(echo(message=str(i))) for i in range(%d))",
			sequentialCalls),
		read: fmt.Sprintf("import json\nfrom servers.filesystem import read_text_file\nitems = "+
			"json.loads(read_text_file(path=%q)['content'])\n"+
			"result = [len(items), sum(x['value'] for x in items)]", file),
	}
}

// codeMode returns fastmcp with its code mode.
func (h *environment) codeMode(ctx context.Context, file string) *server {
	python, err := h.pip(ctx)
	config, _ := json.Marshal(map[string]any{"mcpServers": h.upstreams()})
	return &server{
		name: "fastmcp " + fastmcpVersion + ", CodeMode", method: "a new process, interpreter of a subset of Python (Monty)", skipped: err,
		tool: "execute",
		command: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, python, writeDriver(h.dir, "codemode.py"), string(config))
		},
		sum:  "return 1 + 1",
		call: "return await call_tool('everything_echo', {'message': '7'})",
		calls: fmt.Sprintf("n = 0\nfor i in range(%d):\n    n += len(await call_tool('everything_echo', {'message': str(i)}))\nreturn n",
			sequentialCalls),
		read: fmt.Sprintf("import json\nanswer = await call_tool('filesystem_read_text_file', {'path': %q})\nitems = "+
			"json.loads(answer['content'])\n"+
			"return [len(items), sum(x['value'] for x in items)]", file),
	}
}

func (h *environment) toolplane(ctx context.Context, file string) *server {
	python, err := h.pip(ctx)
	text := "[toolplane]\ndefault_backend = \"monty\"\n[cli]\nmode = \"disabled\"\n"
	for name, s := range h.upstreams() {
		args, _ := json.Marshal(s["args"])
		text += fmt.Sprintf("[mcp.servers.%s]\ncommand = %q\nargs = %s\n", name, s["command"], args)
	}
	config := filepath.Join(h.dir, "toolplane.toml")
	err = errors.Join(err, os.WriteFile(config, []byte(text), 0o600))
	return &server{
		name: "toolplane " + toolplaneVersion, method: "a new session of a warm process, interpreter of a subset of Python (Monty)",
		skipped: err, tool: "execute_code",
		command: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, filepath.Join(filepath.Dir(python), "toolplane"), "serve", "mcp", "--config", config)
		},
		sum:   "return 1 + 1",
		call:  "return await everything_echo(message='7')",
		calls: fmt.Sprintf("n = 0\nfor i in range(%d):\n    n += len(await everything_echo(message=str(i)))\nreturn n", sequentialCalls),
		read: fmt.Sprintf("import json\nanswer = await filesystem_read_text_file(path=%q)\nitems = json.loads(answer['content'])\n"+
			"return [len(items), sum(x['value'] for x in items)]", file),
	}
}

func (h *environment) utcp(file string) *server {
	servers := h.upstreams()
	for _, s := range servers {
		s["transport"] = "stdio"
	}
	config, _ := json.Marshal(map[string]any{"mcpServers": servers})
	return &server{
		name: "@utcp/code-mode " + utcpVersion, method: "a new V8 isolate of the same process, JavaScript", tool: "execute",
		command: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, h.node22(), "--no-node-snapshot", writeDriver(h.dir, "utcp.mjs"), h.cache, string(config))
		},
		sum:  "return 1 + 1",
		call: "return peers.everything_echo({message: '7'})",
		calls: fmt.Sprintf("let n = 0; for (let i = 0; i < %d; i++) n += peers.everything_echo({message: String(i)}).length; return n",
			sequentialCalls),
		read: fmt.Sprintf("const items = peers.filesystem_read_text_file({path: %q}); return [items.length, items.reduce((n, x) => n + "+
			"x.value, 0)]", file),
	}
}

// nodePackage is the npm package with Node.js for this machine.
var nodePackage = "node-linux-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)

// node22 returns the Node.js of the cache, because isolated-vm needs version 22.
func (p packages) node22() string {
	return filepath.Join(p.cache, "node_modules", nodePackage, "bin/node")
}

// start starts the server, and with it or later the upstream servers.
func (s *server) start(ctx context.Context) (err error) {
	s.running = s.command(ctx)
	s.running.WaitDelay = 10 * time.Second
	client := mcp.NewClient(&mcp.Implementation{Name: "bench-peers", Version: "1"}, nil)
	s.session, err = client.Connect(ctx, &mcp.CommandTransport{Command: s.running}, nil)
	return err
}

func (s *server) stop() {
	if s.session != nil {
		_ = s.session.Close()
		s.session = nil
	}
}

// execute returns a task that executes code.
func (s *server) execute(code string) task {
	return func(ctx context.Context) (string, error) {
		r, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: s.tool, Arguments: map[string]any{"code": code}})
		if err != nil {
			return "", err
		}
		if len(r.Content) == 0 {
			return "", errors.New("an empty result")
		}
		text, ok := r.Content[0].(*mcp.TextContent)
		if !ok || r.IsError {
			return "", fmt.Errorf("result %.300v", r.Content[0])
		}
		got := value(text.Text)
		if got == "" { // the execution failed
			return "", fmt.Errorf("result %.300s", text.Text)
		}
		return got, nil
	}
}

// value returns the value in a result, in compact JSON or as text. Sandpiper and
// toolplane return it with other facts about the execution.
func value(text string) string {
	var facts struct{ Result, Value json.RawMessage }
	if json.Unmarshal([]byte(text), &facts) == nil && (facts.Result != nil || facts.Value != nil) {
		text = string(append(facts.Result, facts.Value...))
	}
	var quoted string
	if json.Unmarshal([]byte(text), &quoted) == nil {
		return quoted
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) == nil {
		return compact.String()
	}
	return text
}

// startAndCall measures the time from the start of the process to the first answer of
// an upstream server.
func (s *server) startAndCall(ctx context.Context) (string, error) {
	if err := s.start(ctx); err != nil {
		return "", err
	}
	return s.execute(s.call)(ctx)
}

// crowd makes one call each from many executions at once.
func (s *server) crowd(ctx context.Context) (string, error) {
	var all sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			got, err := s.execute(s.call)(ctx)
			if err == nil && got != echoed {
				err = fmt.Errorf("result %.100q, want %q", got, echoed)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return echoed, errors.Join(errs...)
}

// pss returns the memory of the server and its processes without the upstream servers.
func (s *server) pss() (sum int64) {
	for _, p := range rig.Tree(s.running.Process.Pid) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if upstream := bytes.Contains(command, []byte(everything+"/")) || bytes.Contains(command, []byte(filesystem+"/")); !upstream ||
			p.PID == s.running.Process.Pid {
			sum += rig.PSS(p.PID)
		}
	}
	return sum
}

// measureServers runs the tasks of all servers alternately.
func measureServers(ctx context.Context, all []*server, quick bool) error {
	starts, rounds, sumsPerRound := 3, 4, 10
	if quick {
		starts, rounds, sumsPerRound = 1, 2, 3
	}
	const budget = 10 * time.Second
	take := func(s *server, t *turns, task task, want string, budget time.Duration) {
		if s.skipped == nil && s.starts.err == nil {
			t.take(ctx, task, want, budget)
		}
	}
	for range starts {
		for _, s := range all {
			s.stop()
			take(s, &s.starts, s.startAndCall, echoed, time.Hour)
		}
	}
	for range rounds {
		for range sumsPerRound {
			for _, s := range all {
				take(s, &s.sums, s.execute(s.sum), "2", budget)
			}
		}
		for _, s := range all {
			take(s, &s.callTimes, s.execute(s.calls), lengths, budget)
		}
		for _, s := range all {
			take(s, &s.crowds, s.crowd, echoed, budget)
		}
		for _, s := range all {
			take(s, &s.reads, s.execute(s.read), contents, budget)
		}
	}
	time.Sleep(5 * time.Second) // until they are idle
	for _, s := range all {
		if s.skipped == nil && s.starts.err == nil {
			s.memory = s.pss()
		}
		s.stop()
	}
	return context.Cause(ctx)
}

// showServers prints the table of the servers.
func showServers(all []*server) {
	rows := [][]string{{"", "1+1", "upstream call", fmt.Sprintf("%d at once", callers), "1.2 MB read", "first call", "idle memory",
		"one execution is"}}
	var notes []string
	for _, s := range all {
		if s.skipped != nil {
			notes = append(notes, fmt.Sprintf("skipped %s: %v", s.name, s.skipped))
			continue
		}
		perCall, perSecond, memory := "-", "-", "-"
		if t := s.callTimes.median(); t > 0 {
			perCall = report.Number(float64(t.Microseconds())/sequentialCalls) + " µs"
		}
		if t := s.crowds.median(); t > 0 {
			perSecond = report.Number(callers/t.Seconds()) + " /s"
		}
		if s.memory > 0 {
			memory = report.Number(float64(s.memory)/1e6) + " MB"
		}
		rows = append(rows, []string{s.name, cell(s.sums), perCall, perSecond, cell(s.reads), cell(s.starts), memory, s.method})
		if err := errors.Join(s.sums.err, s.callTimes.err, s.crowds.err, s.reads.err, s.starts.err); err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", s.name, err))
		}
	}
	fmt.Printf("medians over MCP on stdio, with %s and %s (%s)\n"+
		"upstream call: each of %d in sequence; %d at once: executions with one call each; 1.2 MB read: JSON by the upstream server, "+
		"decoded in code;\n"+
		"first call: from the start of the process; idle memory: PSS of all processes without the upstream servers\n\n",
		everything, filesystem, upstreamVersion, sequentialCalls, callers)
	report.PrintTable(os.Stdout, rows)
	fmt.Println()
	for _, n := range notes {
		fmt.Println(n)
	}
}
