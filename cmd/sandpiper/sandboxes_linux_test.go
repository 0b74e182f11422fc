package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const aliceToken, bobToken = "alice-has-a-long-token", "bob-has-a-token-as-well"

// servedSandboxes returns a configuration in which alice has the sandbox gvisor, bob has process, and
// code that calls the server weather must run in gvisor. It skips the test without runsc.
func servedSandboxes(t *testing.T) string {
	t.Helper()
	needSandbox(t)
	program := runsc(t)
	if program == "" {
		t.Skip("gVisor's runsc is not installed")
	}
	servers := strings.ReplaceAll("servers:\n"+calculator+weather, "$SERVERS", exampleServers(t))
	return servers + fmt.Sprintf(`
profile: full
http: {tokens: {alice: %s, bob: %s}}
sandbox: {runsc: %s}
tiers:
  hard: {tenants: [alice], sandbox: {backend: gvisor}}
  default:
policy:
  rules:
    - {name: sensitive, server: weather, sandbox: gvisor}
`, aliceToken, bobToken, program)
}

const (
	release   = "import os\nos.uname().release"
	forecast  = "import os\nfrom servers.weather import get_weather\nos.uname().release, 'city' in get_weather(city='Oslo')"
	concealed = "import importlib\nimportlib.import_module('ser' + 'vers.wea' + 'ther').get_weather(city='Oslo')"
)

func onGVisor(a execAnswer) bool { return strings.Contains(string(a.Result), "gvisor") }

// Two tenants of one daemon have different sandboxes, and code of the one with the weaker sandbox runs
// in the stronger one if a rule requires that for a server that it names.
func TestSandboxesOfTenants(t *testing.T) {
	t.Parallel()
	d := startServing(t, "", servedSandboxes(t))
	alice, bob := d.visit("Authorization", "Bearer "+aliceToken), d.visit("Authorization", "Bearer "+bobToken)
	for range 2 {
		if a, b := alice.run("", release), bob.run("", release); !onGVisor(a) || onGVisor(b) || len(b.Result) == 0 {
			t.Errorf("the kernel of alice is %s, and that of bob %s", a.Result, b.Result)
		}
	}
	for v, name := range map[*visitor]string{alice: "gvisor", bob: "process"} {
		if got := v.toolText("get_execution_stats", "{}"); !strings.Contains(got, `\"backend\":\"`+name+`\"`) {
			t.Errorf("not %s: %s", name, got)
		}
		if a := v.run("", forecast); !onGVisor(a) || !strings.Contains(string(a.Result), "true") {
			t.Errorf("code of the tenant with %s that names the server: %+v", name, a)
		}
	}
	if a := bob.run("", concealed); !strings.Contains(a.Error, "policy requires the sandbox gvisor") || !strings.Contains(a.Error,
		"this code runs in process") {
		t.Errorf("%+v", a)
	}
	if a := alice.run("", concealed); a.Error != "" {
		t.Errorf("%+v", a)
	}

	// A session keeps its sandbox.
	if a := bob.run("weak", "x = 5"); a.Error != "" {
		t.Fatalf("%+v", a)
	}
	if a := bob.run("weak", forecast); !strings.Contains(a.Error, `session "weak" runs in process; a running session keeps its sandbox`) ||
		!strings.Contains(a.Error, "use another session_id") {
		t.Errorf("%+v", a)
	}
	if a := bob.run("weak", "x"); string(a.Result) != "5" {
		t.Errorf("the session has lost its variables: %+v", a)
	}
	if a := bob.run("strong", forecast); !onGVisor(a) {
		t.Errorf("%+v", a)
	}
	if a := bob.run("strong", release); !onGVisor(a) {
		t.Errorf("%+v", a)
	}

	// Work without a client has the same sandboxes.
	for code, want := range map[string]string{forecast: "gvisor", concealed: "policy requires the sandbox gvisor"} {
		id := bob.toolText("dispatch_background_task", fmt.Sprintf(`{"code":%q}`, code))
		_, id, _ = strings.Cut(id, `\"execution_id\":\"`)
		id, _, _ = strings.Cut(id, `\`)
		if got := bob.toolText("wait_for_background_task", fmt.Sprintf(`{"execution_id":%q,"timeout":60}`, id)); !strings.Contains(got,
			want) {
			t.Errorf("in the background, task %s: %s", id, got)
		}
	}
}

// A reload changes the sandbox of a tenant among those in use; another needs a restart.
func TestReloadedSandboxes(t *testing.T) {
	t.Parallel()
	config := servedSandboxes(t)
	d := startServing(t, "", config)
	d.mayFail = true
	bob := d.visit("Authorization", "Bearer "+bobToken)
	if a := bob.run("s", "import os\nx = 5\nos.uname().release"); onGVisor(a) || len(a.Result) == 0 {
		t.Fatalf("%+v", a)
	}
	const reloaded = "the configuration was reloaded"
	d.reload(strings.Replace(config, "tenants: [alice]", "tenants: [alice, bob]", 1), reloaded)
	if a := bob.run("", release); !onGVisor(a) {
		t.Errorf("after the reload: %+v", a)
	}
	if a := bob.run("s", release); !onGVisor(a) || a.Session.State != "restarted" || !strings.Contains(a.Session.Note,
		"the operator has changed the settings") {
		t.Errorf("the session after the reload: %+v", a)
	}
	d.reload(config, reloaded)
	if a := bob.run("s", release); !onGVisor(a) {
		t.Errorf("a session lost its stronger sandbox: %+v", a)
	}
	if a := bob.run("", release); onGVisor(a) {
		t.Errorf("after the second reload: %+v", a)
	}
	d.reload(strings.Replace(config, "backend: gvisor", "backend: microvm", 1),
		"tiers.hard selects the sandbox microvm, which nothing used when Sandpiper started")
	if a := bob.run("", release); a.Error != "" || onGVisor(a) {
		t.Errorf("after the refused reload: %+v", a)
	}
	if os.Geteuid() != 0 {
		return
	}
	// As root, a daemon without runsc in use gives up the capabilities that runsc needs.
	plain := strings.Replace(strings.Replace(config, ", sandbox: {backend: gvisor}", "", 1), ", sandbox: gvisor}", ", decision: allow}", 1)
	other := startServing(t, "", plain)
	other.mayFail = true
	other.reload(config, "tiers.hard selects the sandbox gvisor, which nothing used when Sandpiper started")
}
