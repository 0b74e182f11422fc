package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reload replaces the configuration, signals the daemon, and waits until the log contains text.
func (d *daemonProcess) reload(config, text string) {
	d.t.Helper()
	seen := strings.Count(d.log.String(), text)
	err := os.WriteFile(filepath.Join(d.home, "sandpiper.yaml"), []byte(config), 0o600)
	if err == nil {
		err = syscall.Kill(d.pid, syscall.SIGHUP)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); strings.Count(d.log.String(), text) == seen; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			d.t.Fatalf("the log has no new line with %q:\n%s", text, d.log)
		}
	}
}

// run runs code in a session, and returns the answer.
func (v *visitor) run(session, code string, more ...string) (a execAnswer) {
	v.t.Helper()
	args := map[string]any{"code": code, "session_id": session}
	if session == "" {
		delete(args, "session_id")
	}
	b, err := json.Marshal(args)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.ask("execute_code", strings.TrimSuffix(string(b), "}")+strings.Join(append([]string{""}, more...), ",")+"}")
}

// ask calls a tool that runs code, and returns the answer.
func (v *visitor) ask(tool, args string) (a execAnswer) {
	v.t.Helper()
	res := v.must(v.tool(v.t.Context(), tool, args))
	defer res.Body.Close()
	for m := range messages(res.Body) {
		if m.ID == nil || len(m.Result.Content) == 0 {
			continue
		}
		text := m.Result.Content[0].Text
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			a.Error = text
		}
		return a
	}
	v.t.Errorf("%s, and no answer", res.Status)
	return a
}

func TestHangupReloadsTheConfiguration(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	const alices, bobs = "alice-has-a-long-token", "bob-has-a-token-as-well"
	servers := strings.ReplaceAll("servers:\n"+calculator+weather, "$SERVERS", exampleServers(t))
	d := startServing(t, "", servers+fmt.Sprintf(`
http: {tokens: {alice: %s, bob: %s}}
tenants: {alice: {servers: [calculator, weather]}}
`, alices, bobs))
	alice, bob := d.visit("Authorization", "Bearer "+alices), d.visit("Authorization", "Bearer "+bobs)
	begin := "from servers.calculator import add\nfrom servers.weather import get_weather\nx = 40\nresult = 'city' in " +
		"get_weather(city='Oslo')"
	for _, session := range []string{"s", "t"} {
		if r := alice.run(session, begin); string(r.Result) != "true" {
			t.Fatalf("%+v", r)
		}
	}
	if r := bob.run("s", begin); string(r.Result) != "true" {
		t.Fatalf("%+v", r)
	}
	suspended := alice.run("", `
from servers.weather import get_weather
sure = ask("Go on?", {"type": "boolean"})
result = [sure, "city" in get_weather(city="Oslo")]`)
	if suspended.ID == "" || suspended.Success {
		t.Fatalf("%+v", suspended)
	}
	running := make(chan execAnswer, 1)
	go func() {
		running <- alice.run("", `
import os, time
from servers.calculator import add
from servers.weather import get_weather
write_file("began", "")
while not os.path.exists("go"): time.sleep(0.01)
try:
    get_weather(city="Oslo")
    lost = "reached"
except Exception as e:
    lost = str(e)
result = [add(a=1, b=2)["result"], lost]`, `"timeout_seconds":100`)
	}()
	for {
		if _, err := os.Stat(filepath.Join(d.workspace("alice"), "began")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.reload(servers+fmt.Sprintf(`
http: {tokens: {alice: %s}}
tenants: {alice: {servers: [calculator]}}
sandbox: {max_timeout: 20s}
recent_code: none
`, alices), "needs a restart: recent_code") // the last line
	if log := d.log.String(); !strings.Contains(log, `applied="http.tokens.bob, sandbox.max_timeout, tenants.alice"`) ||
		!strings.Contains(log, "needs a restart: recent_code") {
		t.Errorf("the log:\n%s", log)
	}
	if res := bob.must(bob.call(t.Context(), "1")); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the removed token: %s", res.Status)
	}
	// A live session gets an interpreter without the server.
	r := alice.run("s", "import os\nresult = sorted(n for n in os.listdir('/workspace/servers') if n in ('weather', 'calculator'))")
	if string(r.Result) != `["calculator"]` || !strings.Contains(r.Session.Note, "the operator has changed the settings") {
		t.Errorf("the modules of a live session: %+v", r)
	}
	for _, code := range []string{"get_weather(city='Oslo')", "from servers.weather import get_weather\nget_weather(city='Oslo')",
		"call_tool('weather', 'get_weather', {'city': 'Oslo'})"} {
		for _, session := range []string{"s", "t", ""} {
			if r := alice.run(session, "result = 'city' in "+strings.Replace(code, "\nget", "\nresult = 'city' in get", 1)); r.Success ||
				string(r.Result) == "true" {
				t.Errorf("%s in session %q: %+v", code, session, r)
			}
		}
	}
	if r := alice.ask("resume_execution", fmt.Sprintf(`{"execution_id":%q,"answer":true}`, suspended.ID)); r.Success ||
		!strings.Contains(r.Error, "there is no server") {
		t.Errorf("the suspended execution: %+v", r)
	}
	if r := alice.run("", "1", `"timeout_seconds":100`); !strings.Contains(r.Error, "20") {
		t.Errorf("a timeout above the new limit: %+v", r)
	}
	alice.run("", "write_file('go', '')")
	if r := <-running; !strings.HasPrefix(string(r.Result), "[3,") || !strings.Contains(string(r.Result), "there is no server") {
		t.Errorf("the running execution: %+v", r)
	}
	if out := d.command(t, "audit", "tail", "-n", "100"); !strings.Contains(out, "configuration changed tenants") || !strings.Contains(out,
		"configuration changed http") {
		t.Errorf("the audit log: %s", out)
	}
}

// A configuration with an error is refused as a whole.
func TestHangupRefusesBadConfiguration(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	const alices = "alice-has-a-long-token"
	config := fmt.Sprintf("http: {tokens: {alice: %s}}\nsandbox: {max_timeout: 50s}\n", alices)
	d := startServing(t, "", config)
	d.mayFail = true
	alice := d.visit("Authorization", "Bearer "+alices)
	for _, bad := range []struct{ text, want string }{
		{"http: {tokens: {bob: " + alices + "}}\nsandbox: {max_timeout: never}\n",
			`sandpiper.yaml line 2: sandbox.max_timeout is \"never\"`},
		{"http: {tokens: {bob: " + alices + "}}\ntenants: {alice: {sandbox: {memory_mb: lots}}}\n",
			`sandpiper.yaml line 2: sandbox.memory_mb is \"lots\"`},
		{"http: {tokens: {bob: " + alices + "}}\npolicy:\n  rules:\n  - {when: 'x >', decision: block}\n",
			`sandpiper.yaml line 4: rule 1 of the policy`},
		{"http: {tokens: {bob: short}}\n", `http.tokens.bob has 5 characters`},
	} {
		d.reload(bad.text, bad.want)
		if r := alice.run("", "result = 1"); string(r.Result) != "1" {
			t.Errorf("after %s: %+v", bad.text, r)
		}
	}
	if log := d.log.String(); !strings.Contains(log, "the configuration was not reloaded; the previous one stays in effect") ||
		strings.Contains(log, alices) {
		t.Errorf("the log:\n%s", log)
	}
	d.reload(config+"quotas: {executions_per_minute: 100}\n", "quotas.executions_per_minute")
}
