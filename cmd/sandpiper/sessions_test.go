package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// served is a daemon process over stdio.
type served struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
	id  int
}

// execAnswer is the result of execute_code.
type execAnswer struct {
	Success bool
	Result  json.RawMessage
	Output  []string
	Error   string
	Session struct{ ID, State, Note string }
	ID      string `json:"execution_id"`
	// Questions are those that it waits for; Call is the number of a call of an unknown outcome.
	Questions []struct {
		ID, Question string
		Call         int
	}

	raw string // the whole message
}

// serve starts a daemon over stdio with the configuration and data in dir.
func serve(t *testing.T, dir string) *served { return serveTo(t, dir, "{}") }

// serveTo is serve for a client with these capabilities.
func serveTo(t *testing.T, dir, capabilities string) *served {
	t.Helper()
	s := &served{t: t, cmd: sandpiper(dir, "serve")}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.in, s.out = in, bufio.NewScanner(out)
	s.out.Buffer(nil, 1<<20)
	s.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities +
		`,"clientInfo":{"name":"t","version":"1"}}}`)
	if !s.out.Scan() {
		t.Fatal("the server is silent")
	}
	s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *served) say(line string) { _, _ = fmt.Fprintln(s.in, line) } // an error means that the daemon was killed

// kill sends SIGKILL.
func (s *served) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *served) ask(session, code string) {
	s.id++
	args, _ := json.Marshal(map[string]string{"code": code, "session_id": session})
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_code","arguments":%s}}`, s.id, args))
}

// accept answers a form of booleans with true; false if the message is none.
func (s *served) accept() bool {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			RequestedSchema struct{ Properties map[string]any }
		}
	}
	if json.Unmarshal(s.out.Bytes(), &m) != nil || m.Method != "elicitation/create" {
		return false
	}
	content := map[string]bool{}
	for name := range m.Params.RequestedSchema.Properties {
		content[name] = true
	}
	answer, _ := json.Marshal(content)
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":%s}}`, m.ID, answer))
	return true
}

// hear accepts forms and returns the next result; false if the daemon has exited.
func (s *served) hear() (r execAnswer, ok bool) {
	s.t.Helper()
	if !s.out.Scan() {
		return r, false
	}
	for strings.Contains(s.out.Text(), `"notifications/tools/list_changed"`) || s.accept() {
		if !s.out.Scan() {
			return r, false
		}
	}
	var m struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(s.out.Bytes(), &m); err != nil || len(m.Result.Content) == 0 {
		s.t.Fatalf("%s: %v", s.out.Text(), err)
	}
	r.raw = m.Result.Content[0].Text
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &r); err != nil {
		s.t.Fatal(err)
	}
	return r, true
}

func (s *served) call(session, code string) execAnswer {
	s.t.Helper()
	s.ask(session, code)
	r, ok := s.hear()
	if !ok {
		s.t.Fatal("the daemon has died")
	}
	return r
}

// show returns the output of session show --json.
func show(t *testing.T, dir, id string) (log struct {
	Tasks      []struct{ Code, Result, Output string }
	StateFiles []string `json:"state_files"`
	Checkpoint *struct {
		Step     int
		LastTask string `json:"last_task"`
		Context  string
	}
}) {
	t.Helper()
	out, err := sandpiper(dir, "session", "show", id, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &log); err != nil {
		t.Fatal(err)
	}
	return log
}

// TestSecondSessionContinuesAfterCrash runs a workflow over several
// sessions with a kill -9 between them.
func TestSecondSessionContinuesAfterCrash(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := t.TempDir()
	first := serve(t, dir)
	r := first.call("session_001", `
import json
import os
os.makedirs('/workspace/state', exist_ok=True)
with open('/workspace/state/results.json', 'w') as f:
    json.dump({'step': 1, 'result': 8}, f)
print("State saved")`)
	if !r.Success || r.Session.State != "new" || !cmp.Equal(r.Output, []string{"State saved"}) {
		t.Fatalf("%+v", r)
	}
	r = first.call("session_001", `rows = [{"n": i} for i in range(5)]; checkpoint(1, "Working on data analysis"); len(rows)`)
	if string(r.Result) != "5" || r.Session.State != "live" {
		t.Fatalf("%+v", r)
	}
	if r = first.call("session_001", "rows[-1]['n'] + len(os.listdir('/workspace/state'))"); string(r.Result) != "5" {
		t.Fatalf("%+v", r)
	}
	first.kill()

	second := serve(t, dir)
	r = second.call("session_002", `
import json
with open('/workspace/state/results.json', 'r') as f:
    data = json.load(f)
print(f"Resumed from step {data['step']}")`)
	if !cmp.Equal(r.Output, []string{"Resumed from step 1"}) || r.Session.State != "new" {
		t.Fatalf("%+v", r)
	}
	r = second.call("session_001", "rows")
	if r.Success || r.Session.State != "restarted" || !strings.Contains(r.Session.Note, "/workspace/sessions/session_001.json") {
		t.Fatalf("%+v", r)
	}
	r = second.call("session_001", `
for task in json.load(open("/workspace/sessions/session_001.json"))["tasks"]:
    if not task["result"].startswith("error"): exec(task["code"])
rows[-1]`)
	if string(r.Result) != `{"n":4}` || r.Session.State != "live" {
		t.Fatalf("rebuilt according to the note: %+v", r)
	}
	log := show(t, dir, "session_001") // the fifth task created the checkpoint again
	if len(log.Tasks) != 5 || log.Tasks[0].Output != "State saved" || log.Tasks[2].Result != "5" ||
		!cmp.Equal(log.StateFiles, []string{"/workspace/state/results.json"}) || log.Checkpoint == nil ||
		log.Checkpoint.Step != 1 || log.Checkpoint.LastTask != "task_005" || log.Checkpoint.Context != "Working on data analysis" {
		t.Errorf("%+v", log)
	}
}

// kills returns the number of kills in a test: 1, or long with long tests.
func kills(long int) int {
	if longtest.Enabled() {
		return long
	}
	return 1
}

// TestAcknowledgedStepsAreLogged kills the daemon while two sessions run code. The
// log has every acknowledged step, in order and once.
func TestAcknowledgedStepsAreLogged(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := t.TempDir()
	acknowledged := map[string][]string{}
	rounds := kills(6)
	for round := range rounds {
		s := serve(t, dir)
		sent := map[int]string{}
		ask := func(n int) {
			session := fmt.Sprint("s", n%2)
			code := fmt.Sprintf("checkpoint(%d, 'round %d'); %d", n, round, 1000*round+n)
			s.ask(session, code)
			sent[n] = session
		}
		for n := range 4 { // number of concurrent calls
			ask(n)
		}
		for n := 4; ; n++ {
			r, ok := s.hear()
			if !ok {
				break
			}
			if !r.Success {
				t.Fatalf("%+v", r)
			}
			acknowledged[r.Session.ID] = append(acknowledged[r.Session.ID], string(r.Result))
			if n == 12+7*round {
				go s.cmd.Process.Kill() // with results in flight
			}
			ask(n)
		}
		s.kill()
	}
	for id, results := range acknowledged {
		log := show(t, dir, id)
		seen := map[string]int{}
		for _, task := range log.Tasks {
			seen[task.Result]++
		}
		for _, r := range results {
			if seen[r] != 1 {
				t.Errorf("session %s: the result %s was answered and is in the log %d times", id, r, seen[r])
			}
		}
		least := 1
		if longtest.Enabled() {
			least = 20
		}
		if len(results) < least || len(log.Tasks) > len(results)+4*rounds {
			t.Errorf("session %s: %d answered, %d in the log", id, len(results), len(log.Tasks))
		}
	}
}

// TestOutputOfEarlierThreadIsDropped tests threads that outlive their call, across
// the freezing of the interpreter, and in the middle of a print.
func TestOutputOfEarlierThreadIsDropped(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := t.TempDir()
	s := serve(t, dir)
	r := s.call("s", `
import threading, time
n = 0
def speak(size):
    global n
    while True:
        print("late" * size)
        n += 1
for size in (1, 50_000): threading.Thread(target=speak, args=(size,), daemon=True).start()
def tick():
    print("tick")
    t = threading.Timer(0.001, tick); t.daemon = True; t.start()
tick()
class Sized:
    def __str__(self):
        time.sleep(0.01)
        return "slow"
def slowly():
    while True: print(Sized(), Sized())
threading.Thread(target=slowly, daemon=True).start()`)
	if !r.Success {
		t.Fatalf("%+v", r)
	}
	for i := range 20 {
		r := s.call("s", fmt.Sprintf("before = n\nwhile n < before + 5: time.sleep(0.001)\nprint(%d)", i))
		if !cmp.Equal(r.Output, []string{fmt.Sprint(i)}) || r.Session.State != "live" {
			t.Fatalf("call %d heard %.100q", i, r.Output)
		}
	}
}
