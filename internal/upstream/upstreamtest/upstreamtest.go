// Package upstreamtest provides a scripted MCP server for tests of packages that use upstream servers.
// It implements the protocol 2025-11-25 without an SDK, so that it sends the values of the script
// unchanged.
//
// A test calls Main at the start of its TestMain and uses its own program as the command of a server;
// see Command and Env.
package upstreamtest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Script defines the lists and answers of a server, as protocol JSON.
type Script struct {
	Tools     []json.RawMessage `json:"tools"`
	Resources []json.RawMessage `json:"resources"`
	Templates []json.RawMessage `json:"templates"`
	Prompts   []json.RawMessage `json:"prompts"`
	// Answers are results: "call NAME" of a tool, "read URI", "get NAME" of a prompt,
	// "complete". A request without one fails.
	//
	// Some tools have an effect: "announce" sends list_changed for all lists; "die" exits with
	// ExitMessage on stderr; "wait" reports progress, waits for its cancellation and then
	// creates the file "cancelled"; "ask" asks the Questions one by one and answers with the
	// replies; "record" appends its unchanged arguments as a line to the file "recorded".
	// Files are created in the directory of the script.
	Answers map[string]json.RawMessage `json:"answers"`
	// Questions are the parameters of elicitation/create.
	Questions   []json.RawMessage `json:"questions"`
	ExitMessage string            `json:"exit_message"` // "" means "the disk is on fire"
	Silent      bool              `json:"silent"`       // requests are not answered
}

// env names the file with the script.
const env = "UPSTREAMTEST_SCRIPT"

// Env returns the environment of a server with the script in file. The server reads the file for each
// request, so a test can change it.
func Env(file string) map[string]string { return map[string]string{env: file} }

// Command returns the program of a scripted server: the test binary.
func Command(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// Write replaces the script of the servers that use file.
func Write(t testing.TB, file string, s Script) {
	t.Helper()
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Main runs the server and exits, if the process was started as one. Otherwise it returns.
func Main() {
	file := os.Getenv(env)
	if file == "" {
		return
	}
	s := &server{file: file, waiting: map[string]chan struct{}{}, asked: map[string]chan json.RawMessage{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r request
		if json.Unmarshal(in.Bytes(), &r) != nil {
			os.Exit(1)
		}
		s.dispatch(r)
	}
	os.Exit(0)
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		Name string          `json:"name"`
		URI  string          `json:"uri"`
		Args json.RawMessage `json:"arguments"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		Request json.RawMessage `json:"requestId"`
	} `json:"params"`
}

type server struct {
	file string

	mu      sync.Mutex // also of stdout
	waiting map[string]chan struct{}
	asked   map[string]chan json.RawMessage // reply by question id
}

func (s *server) script() (script Script) {
	b, err := os.ReadFile(s.file)
	if err == nil {
		err = json.Unmarshal(b, &script)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return script
}

func (s *server) send(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

// dispatch handles r. It handles waiting calls in the background, so that they can be cancelled.
func (s *server) dispatch(r request) {
	if r.Method == "notifications/cancelled" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w := s.waiting[string(r.Params.Request)]; w != nil {
			close(w)
		}
		return
	}
	if r.ID == nil {
		return
	}
	if r.Method == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[string(r.ID)] <- append(r.Result, r.Error...)
		return
	}
	if r.Method == "tools/call" && r.Params.Name == "ask" {
		go s.ask(r, s.script())
		return
	}
	if r.Method == "tools/call" && r.Params.Name == "wait" {
		cancelled := make(chan struct{})
		s.mu.Lock()
		s.waiting[string(r.ID)] = cancelled
		s.mu.Unlock()
		go s.wait(r, cancelled)
		return
	}
	s.answer(r, s.script())
}

func (s *server) answer(r request, script Script) {
	if script.Silent {
		return
	}
	var result any
	switch r.Method {
	case "initialize":
		result = json.RawMessage(`{"protocolVersion":"2025-11-25","serverInfo":{"name":"scripted","version":"1"},"capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true},"completions":{}}}`)
	case "tools/list":
		result = map[string]any{"tools": list(script.Tools)}
	case "resources/list":
		result = map[string]any{"resources": list(script.Resources)}
	case "resources/templates/list":
		result = map[string]any{"resourceTemplates": list(script.Templates)}
	case "prompts/list":
		result = map[string]any{"prompts": list(script.Prompts)}
	case "tools/call":
		result = s.call(r, script)
	case "resources/read":
		result = script.Answers["read "+r.Params.URI]
	case "prompts/get":
		result = script.Answers["get "+r.Params.Name]
	case "completion/complete":
		result = script.Answers["complete"]
	}
	if raw, ok := result.(json.RawMessage); result == nil || ok && raw == nil {
		s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not in the script"}}`, r.ID)
		return
	}
	b, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	s.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, b)
}

// list returns a list that is not null in JSON.
func list(items []json.RawMessage) []json.RawMessage { return append([]json.RawMessage{}, items...) }

func (s *server) call(r request, script Script) json.RawMessage {
	switch r.Params.Name {
	case "die":
		fmt.Fprintln(os.Stderr, cmp.Or(script.ExitMessage, "the disk is on fire"))
		os.Exit(3)
	case "record":
		s.record(r)
	case "announce":
		for _, what := range []string{"tools", "resources", "prompts"} {
			s.send(`{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, what)
		}
	}
	return script.Answers["call "+r.Params.Name]
}

func (s *server) record(r request) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(s.file), "recorded"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\n", r.Params.Args)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// ask asks the questions of the script and answers r with the replies.
func (s *server) ask(r request, script Script) {
	var replies []json.RawMessage
	for _, q := range script.Questions {
		reply := make(chan json.RawMessage, 1)
		s.mu.Lock()
		id := fmt.Sprintf(`"question %d"`, len(s.asked))
		s.asked[id] = reply
		s.mu.Unlock()
		s.send(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}`, id, q)
		replies = append(replies, <-reply)
	}
	text, err := json.Marshal(list(replies))
	if err != nil {
		panic(err)
	}
	quoted, _ := json.Marshal(string(text)) // a string can be
	s.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, r.ID, quoted)
}

// wait answers r when it is cancelled, although the client no longer reads the answer.
func (s *server) wait(r request, cancelled chan struct{}) {
	if r.Params.Meta.Token != nil {
		s.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"waiting"}}`, r.Params.Meta.Token)
	}
	select {
	case <-cancelled:
		if err := os.WriteFile(filepath.Join(filepath.Dir(s.file), "cancelled"), nil, 0o600); err != nil {
			panic(err)
		}
	case <-time.After(5 * time.Minute): // not cancelled
	}
	s.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"cancelled"}}`, r.ID)
}
