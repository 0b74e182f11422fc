package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
