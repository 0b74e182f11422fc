package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// reloading starts a daemon with servers, and returns functions that replace them.
func reloading(t *testing.T, servers string) (s *served, reload func(servers string)) {
	needSandbox(t)
	dir, built := t.TempDir(), exampleServers(t)
	file := filepath.Join(dir, "sandpiper.yaml")
	write := func(servers string) {
		t.Helper()
		text := "servers:\n" + strings.ReplaceAll(servers, "$SERVERS", built)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(servers)
	s = serve(t, dir)
	return s, func(servers string) {
		write(servers)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually runs code in a session until its result is want, since a reload takes a moment.
func (s *served) eventually(session, code, want string) {
	s.t.Helper()
	var r execAnswer
	for range 200 {
		r = s.call(session, code)
		if string(r.Result) == want {
			return
		}
		if strings.Contains(r.Error, "SyntaxError") {
			s.t.Fatal(r.Error)
		}
	}
	s.t.Errorf("%s does not return %s: %+v", code, want, r)
}

const (
	calculator = "  calculator: {command: $SERVERS/calculator}\n"
	weather    = "  weather: {command: $SERVERS/weather}\n"
)

func TestLiveSessionSeesReloadedServers(t *testing.T) {
	t.Parallel()
	s, reload := reloading(t, calculator)
	if r := s.call("s", "from servers.calculator import add\nx = 40\nresult = add(a=1, b=2)['result']"); string(r.Result) != "3" {
		t.Fatalf("%+v", r)
	}
	reload(calculator + weather)
	s.eventually("s", "from servers.weather import get_weather\nresult = [x, 'city' in get_weather(city='Oslo')]", "[40,true]")
	if r := s.call("s", "result = add(a=x, b=2)['result']"); string(r.Result) != "42" {
		t.Errorf("a function of before: %+v", r)
	}
	if r := s.call("", "from servers import calculator, weather\nresult = [dir(calculator) != [], dir(weather) != []]"); string(r.Result) != "[true,true]" {
		t.Errorf("a new execution: %+v", r)
	}
	reload(weather)
	s.eventually("s", "import servers\nresult = dir(servers)", `["weather"]`)
	r := s.call("s", "result = add(a=x, b=2)")
	if r.Success || !strings.Contains(r.Error, `there is no server "calculator"`) {
		t.Errorf("the removed server: %+v", r)
	}
	if r := s.call("s", "from servers.calculator import add"); r.Success || !strings.Contains(r.Error, `nothing was run`) {
		t.Errorf("an import of the removed server: %+v", r)
	}
	if r := s.call("s", "result = x"); string(r.Result) != "40" {
		t.Errorf("the session lost its variables: %+v", r)
	}
	reload(calculator) // with the key of the first set
	s.eventually("s", "import servers\nresult = dir(servers)", `["calculator"]`)
	s.eventually("other", "import servers\nresult = dir(servers)", `["calculator"]`)
}

func TestReloadDuringExecution(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	s, reload := reloading(t, calculator+weather)
	s.ask("s", `
import time
from servers.calculator import add
sums = 0
for i in range(400):
    sums += add(a=1, b=0)["result"]
    time.sleep(0.002)
result = sums`)
	for i := range 20 {
		reload(calculator + strings.Repeat("# "+fmt.Sprint(i)+"\n", i) + map[bool]string{true: weather}[i%2 == 0])
	}
	r, ok := s.hear()
	if !ok || string(r.Result) != "400" {
		t.Errorf("%+v %v", r, ok)
	}
}

// runIn runs a command in a directory with its configuration and data.
func runIn(t *testing.T, dir string, want int, args ...string) string {
	t.Helper()
	cmd := sandpiper(dir, args...)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Fatalf("%v: exit code %d, %v\n%s", args, code, err, out)
	}
	return string(out)
}

func TestServersCommandsChangeARunningDaemon(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	s, _ := reloading(t, calculator)
	dir := s.cmd.Dir
	first, second := fmt.Sprint("daemon ", s.cmd.Process.Pid), serve(t, dir)
	if r := s.call("s", "from servers.calculator import add\nx = 1"); !r.Success {
		t.Fatalf("%+v", r)
	}
	out := runIn(t, dir, 0, "servers", "add", "weather", "--", filepath.Join(exampleServers(t), "weather"))
	if !strings.Contains(out, first) || !strings.Contains(out, fmt.Sprint("daemon ", second.cmd.Process.Pid)) || strings.Contains(out,
		"warning") {
		t.Errorf("add: %s", out)
	}
	for _, d := range []*served{s, second} { // the command has waited for both
		if r := d.call("s", "from servers.weather import get_weather\nresult = 'city' in get_weather(city='Oslo')"); string(r.Result) != "true" {
			t.Errorf("after add: %+v", r)
		}
	}
	runIn(t, dir, 0, "servers", "disable", "calculator")
	if r := s.call("s", "result = add(a=x, b=2)"); !strings.Contains(r.Error, "server calculator is disabled by the operator") {
		t.Errorf("after disable: %+v", r)
	}
	runIn(t, dir, 0, "servers", "enable", "calculator")
	if r := s.call("s", "result = add(a=x, b=2)['result']"); string(r.Result) != "3" {
		t.Errorf("after enable: %+v", r)
	}
	file := filepath.Join(dir, "sandpiper.yaml")
	good, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(good, "sevrers: {}\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := runIn(t, dir, 2, "servers", "remove", "weather"); !strings.Contains(out, "the configuration has an error") ||
		!strings.Contains(out, "sevrers") {
		t.Errorf("with another error in the file: %s", out)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.eventuallyListed(dir, good, "keeps its previous configuration")
	if r := s.call("s", "result = add(a=x, b=2)['result']"); string(r.Result) != "3" {
		t.Errorf("after a bad configuration: %+v", r)
	}
}

// eventuallyListed waits until servers list, with a good configuration, contains text.
func (s *served) eventuallyListed(dir string, good []byte, text string) {
	s.t.Helper()
	other := s.t.TempDir()
	file := filepath.Join(other, "sandpiper.yaml")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		s.t.Fatal(err)
	}
	for out := ""; !strings.Contains(out, text); {
		out = runIn(s.t, dir, 0, "servers", "list", "--config", file)
	}
}

// servers list has the state of each server in the running daemons.
func TestServersListHasStates(t *testing.T) {
	t.Parallel()
	s, _ := reloading(t, calculator+"  weather: {command: $SERVERS/weather, review: true}\n  broken: {command: no-such-program}\n  off: "+
		"{command: x, disabled: true}\n")
	second := serve(t, s.cmd.Dir)
	list := func(args ...string) string {
		return runIn(t, s.cmd.Dir, 0, append([]string{"servers", "list"}, args...)...)
	}
	find := func(pattern string) {
		t.Helper()
		re := regexp.MustCompile("(?m)" + pattern)
		for end := time.Now().Add(20 * time.Second); !re.MatchString(list()); {
			if time.Now().After(end) {
				t.Fatalf("no line matches %q:\n%s", pattern, list())
			}
		}
	}
	for _, d := range []*served{s, second} {
		if r := d.call("", "from servers.calculator import add\nresult = add(a=1, b=2)['result']"); string(r.Result) != "3" {
			t.Fatalf("%+v", r)
		}
	}
	find(`^calculator +connected +3 tools +/`)
	find(`^weather +waiting for review +`)
	find(`^off +disabled +x$`)
	for _, d := range []*served{s, second} {
		find(fmt.Sprintf(`^broken +failed +0 tools +no-such-program\n(  .*\n)?  failed in daemon %d since 2.*: server "broken" cannot be `+
			`started: program "no-such-program" not found`, d.cmd.Process.Pid))
	}
	var got struct {
		Servers []struct {
			Name, State string
			Connections []struct {
				PID           int
				State, Reason string
			}
		}
	}
	if err := json.Unmarshal([]byte(list("--json")), &got); err != nil {
		t.Fatal(err)
	}
	for _, v := range got.Servers {
		want := map[string]string{"calculator": "connected", "weather": "waiting_for_review", "broken": "failed", "off": "disabled"}[v.Name]
		if v.State != want || (len(v.Connections) == 2) == (v.Name == "off") ||
			v.Name == "broken" && !strings.Contains(v.Connections[1].Reason, "not found") {
			t.Errorf("%+v", v)
		}
	}
	s.cmd.Process.Kill()
	second.cmd.Process.Kill()
	find(`^calculator +no daemon +3 tools`)
	find(`^broken +failed +0 tools +no-such-program\n  last failed at 2.*: server "broken" cannot be started: program "no-such-program" ` +
		`not found; install it`)
}

// A project may add servers; it cannot replace, disable or remove those of the person.
func TestProjectCannotChangeServersAtReload(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	home, project, built := t.TempDir(), t.TempDir(), exampleServers(t)
	own := filepath.Join(home, "config", "sandpiper", "sandpiper.yaml")
	theirs := filepath.Join(project, "sandpiper.yaml")
	write := func(path, text string) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(text, "$SERVERS", built)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := sandpiper(home, args...)
		cmd.Dir, cmd.Env = project, append(cmd.Env, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "SANDPIPER_CONFIG=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	write(own, "servers:\n"+calculator+"  off: {command: x, disabled: true}\n")
	write(theirs, "servers:\n  calculator: {command: evil, disabled: true}\n  off: {command: evil, disabled: false}\n"+weather)
	list := run("servers", "list")
	if !strings.Contains(list, "calculator") || strings.Contains(list, "evil") || strings.Contains(list, "weather") {
		t.Errorf("an untrusted project: %s", list)
	}
	run("trust", "--yes")
	list = run("servers", "list")
	for _, line := range strings.Split(list, "\n") {
		switch {
		case strings.HasPrefix(line, "calculator") && !strings.Contains(line, built), strings.HasPrefix(line,
			"weather") && !strings.Contains(line, "of the project"), strings.HasPrefix(line, "off") && !strings.Contains(line, "disabled"):
			t.Errorf("a trusted project: %s", line)
		}
	}
	before, _ := os.ReadFile(theirs)
	run("servers", "disable", "calculator")
	if after, _ := os.ReadFile(theirs); string(after) != string(before) {
		t.Errorf("the project's file was edited: %s", after)
	}
	if list = run("servers", "list"); !strings.Contains(list, "weather") {
		t.Errorf("after disable: %s", list)
	}
}
