package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

const paySkill = "def pay(n):\n    from servers import ledger\n    ledger.add(n=n)\n    return n\n"

// scheduled returns a data directory whose schedules, all of the same hour, are due after a time. Each
// run writes its number to the ledger.
func scheduled(t *testing.T, count int, after time.Duration) (dir, ledger string) {
	t.Helper()
	dir, ledger = books(t)
	file := filepath.Join(dir, "sandpiper.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "schedules:\n"...)
	var specs []schedule.Spec
	for n := range count {
		text = fmt.Appendf(text, "  - {name: s%d, every: 1h, run: {skill: pay}, inputs: {n: %d}}\n", n, n)
		specs = append(specs, schedule.Spec{Name: fmt.Sprintf("s%d", n), Every: time.Hour, Skill: "pay"})
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	save := sandpiper(dir, "skills", "save", "pay", "-")
	save.Stdin = strings.NewReader(paySkill)
	if out, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	root := filepath.Join(dir, "data", "sandpiper")
	homes, err := home.Open(t.Context(), home.Config{Root: root, Process: journal.NewProcess(filepath.Join(root, "processes"), nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer homes.Close()
	h, err := homes.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schedule.Open(h).HandleDue(t.Context(), time.Now().Add(after-time.Hour), specs, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir, ledger
}

// lastRuns returns the schedules when all of them have a run that has ended.
func lastRuns(t *testing.T, dir string, meanwhile ...func()) []schedule.Listed {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var list struct{ Schedules []schedule.Listed }
		if err := json.Unmarshal([]byte(command(t, dir, "schedules", "list", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, s := range list.Schedules {
			if s.Last == nil || s.Last.Outcome == schedule.Started {
				open++
			}
		}
		if open == 0 {
			return list.Schedules
		}
		for _, f := range meanwhile {
			f()
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d have not ended", open, len(list.Schedules))
		}
	}
}

// Two daemons have the same schedules. One is killed when the first runs have begun, and a third
// one starts: each run has its effect once. A person tells what happened to a call that was in flight
// when the daemon was killed.
func TestTwoDaemonsRunEachScheduleOnceDespiteAKill(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	const count = 40
	dir, ledger := scheduled(t, count, 3*time.Second)
	s := serve(t, dir)
	serve(t, dir)
	for len(entered(t, ledger)) < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	s.kill()
	serve(t, dir)
	all := lastRuns(t, dir, func() { decideInBackground(t, dir, ledger) })
	if len(all) != count {
		t.Fatalf("%d schedules", len(all))
	}
	entries := entered(t, ledger)
	for _, one := range all {
		var n int
		if _, err := fmt.Sscanf(one.Name, "s%d", &n); err != nil {
			t.Fatal(err)
		}
		if one.Last.Outcome != "completed" || entries[n] != 1 {
			t.Errorf("%s: %s, with %d entries", one.Name, one.Last.Outcome, entries[n])
		}
	}
}

// decideInBackground decides about the calls that background executions ask about, as a person who looks
// at the ledger would.
func decideInBackground(t *testing.T, dir, ledger string) {
	t.Helper()
	var list struct {
		Executions []struct {
			ID        string `json:"execution_id"`
			Questions []struct {
				Call     int
				Question string
			}
		}
	}
	if err := json.Unmarshal([]byte(command(t, dir, "executions", "list", "--background", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Executions {
		for _, q := range one.Questions {
			decideCall(t, dir, ledger, one.ID, q.Call, q.Question)
		}
	}
}

// decideCall decides about a call of an unknown outcome.
func decideCall(t *testing.T, dir, ledger, id string, call int, question string) {
	t.Helper()
	decision := "not-done"
	if entered(t, ledger)[writeNumber(question)] > 0 {
		decision = "done"
	}
	// it may just have been answered
	if out, err := sandpiper(dir, "executions", "answer", id, fmt.Sprint(call), decision).CombinedOutput(); err != nil {
		t.Logf("%s: %s", id, out)
	}
}

// A due time that passed while no daemon was running is run once, by one of two.
func TestMissedRunAfterRestart(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := scheduled(t, 2, -20*time.Minute)
	serve(t, dir)
	serve(t, dir)
	for _, one := range lastRuns(t, dir) {
		if one.Last.Outcome != "completed" || time.Since(one.Last.Due) < 19*time.Minute || time.Until(one.Next) > 41*time.Minute {
			t.Errorf("%+v, last %+v\n%s", one, one.Last, command(t, dir, "executions", "show", one.Last.Execution))
		}
	}
	if got := fmt.Sprint(entered(t, ledger)); got != "map[0:1 1:1]" {
		t.Error(got)
	}
}

// A thousand runs are due at once: each runs once, while a client's calls are answered. How long both
// take is logged.
func TestThousandRunsDueAtOnce(t *testing.T) {
	longtest.Skip(t)
	needSandbox(t)
	const count = 1000
	dir, ledger := scheduled(t, count, 20*time.Second)
	s := serve(t, dir)
	s.call("", "1")
	alone := time.Now()
	for range 20 {
		s.call("", "1")
	}
	idle := time.Since(alone) / 20
	for len(entered(t, ledger)) == 0 {
		time.Sleep(time.Millisecond)
	}
	began, calls, longest := time.Now(), 0, time.Duration(0)
	for len(entered(t, ledger)) < count {
		before := time.Now()
		if r := s.call("", "1"); string(r.Result) != "1" {
			t.Fatalf("%+v", r)
		}
		calls++
		longest = max(longest, time.Since(before))
	}
	t.Logf("%d runs in %s; %d calls meanwhile, %s on average, the longest %s; alone %s", count, time.Since(began), calls,
		time.Since(began)/time.Duration(calls), longest, idle)
	for n, entries := range entered(t, ledger) {
		if entries != 1 {
			t.Errorf("run %d: %d entries", n, entries)
		}
	}
}

// tool calls a tool other than execute_code, and returns the text of the answer.
func (s *served) tool(name, args string) string {
	s.t.Helper()
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, s.id, name, args))
	for s.out.Scan() {
		var m struct {
			ID     int
			Result struct{ Content []struct{ Text string } }
		}
		if json.Unmarshal(s.out.Bytes(), &m) == nil && m.ID == s.id && len(m.Result.Content) > 0 {
			return m.Result.Content[0].Text
		}
	}
	s.t.Fatal("the daemon has exited")
	return ""
}

// An agent creates a schedule, which the person approves on the command line.
func TestAgentCreatesASchedule(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := scheduled(t, 1, time.Minute)
	file := filepath.Join(dir, "sandpiper.yaml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append([]byte("profile: full\n"), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	const args = `{"name": "mine", "skill": "pay", "inputs": {"n": 7}, "every": "1s"}`
	refused := s.tool("create_schedule", args)
	id := regexp.MustCompile(`approvals approve ([a-z0-9_]+)`).FindStringSubmatch(refused)
	if id == nil {
		t.Fatalf("no approval was requested: %s", refused)
	}
	if list := s.tool("list_schedules", "{}"); strings.Contains(list, "mine") {
		t.Errorf("it exists without approval: %s", list)
	}
	command(t, dir, "approvals", "approve", id[1])
	other := strings.Replace(args, `"n": 7`, `"n": 8`, 1)
	if got := s.tool("create_schedule", other); !strings.Contains(got, "needs approval") {
		t.Errorf("other inputs: %s", got)
	}
	if got := s.tool("create_schedule", args); !strings.Contains(got, `"success":true`) {
		t.Fatal(got)
	}
	for entered(t, ledger)[7] == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	if got := s.tool("create_schedule", `{"name": "x", "skill": "pya", "every": "1h"}`); !strings.Contains(got, "pya") ||
		strings.Contains(got, "approv") {
		t.Errorf("an unknown skill: %s", got)
	}
	if got := s.tool("delete_schedule", `{"name": "s0"}`); !strings.Contains(got, "in the configuration") {
		t.Error(got)
	}
	if got := s.tool("delete_schedule", `{"name": "mine"}`); !strings.Contains(got, "deleted") {
		t.Error(got)
	}
	if list := command(t, dir, "schedules", "list"); strings.Contains(list, "mine") {
		t.Error(list)
	}
}

// A client that shows forms is asked at once, and the schedule exists only if the person approves it.
func TestPersonApprovesAScheduleInTheClient(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	home := t.TempDir()
	save := sandpiper(home, "skills", "save", "greet", "-")
	save.Stdin = strings.NewReader("def greet(email):\n    return email\n")
	if out, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	p := connect(t, home, "profile: full\n", "2025-11-25", formCapabilities["2025-11-25"])
	tell := func(tool, args string) string {
		p.sendCall(tool, args, "")
		m := p.nextMessage()
		if len(m.Result.Content) != 1 {
			t.Fatalf("%+v", m)
		}
		return m.Result.Content[0].Text
	}
	for _, x := range []struct {
		name, answer, want string
		exists             bool
	}{
		{"denied", denies, "the user declined: ask Grace first", false},
		{"declined", declines, "the user declined", false},
		{"cancelled", cancels, "the user declined", false},
		{"approved", approves, `"success":true`, true},
	} {
		p.sendCall("create_schedule", fmt.Sprintf(`{"name":%q,"skill":"greet","inputs":{"email":"zoe.kowalczyk@example.com"},"cron":"0 9 `+
			`* * 1","time_zone":"Europe/Paris"}`, x.name), "")
		asked := p.nextMessage()
		for _, part := range []string{"create_schedule", `"greet"`, x.name, "0 9 * * 1", "zoe.kowalczyk@example.com", "without a client"} {
			if asked.Method != "elicitation/create" || !strings.Contains(asked.Params.Message, part) {
				t.Errorf("%s: no %q in the question %s", x.name, part, asked.Params.Message)
			}
		}
		if list := tell("list_schedules", "{}"); strings.Contains(list, x.name) {
			t.Errorf("%s: it exists before the answer: %s", x.name, list)
		}
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, x.answer))
		if got := p.nextMessage(); len(got.Result.Content) != 1 || !strings.Contains(got.Result.Content[0].Text, x.want) {
			t.Errorf("%s: %+v has no %q", x.name, got, x.want)
		}
		if list := tell("list_schedules", "{}"); strings.Contains(list, `"name":"`+x.name+`"`) != x.exists {
			t.Errorf("%s: %s", x.name, list)
		}
	}
	if list := tell("list_schedules", "{}"); strings.Contains(list, "kowalczyk") {
		t.Errorf("the model sees the address: %s", list)
	}
}
