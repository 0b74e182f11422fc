package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// answer calls execute_code and returns the body of the response.
func (v *visitor) answer(args string) string {
	v.t.Helper()
	return v.toolText("execute_code", args)
}

// toolText calls a tool and returns the body of the response.
func (v *visitor) toolText(name, args string) string {
	v.t.Helper()
	res := v.must(v.tool(v.t.Context(), name, args))
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(b)
}

// Customers whose ids differ in case only are two tenants. One that is suspended by another
// process is refused within a second, in every revision of the protocol, and its executions and
// live interpreters end. Deleting it while the daemon runs leaves nothing of it.
func TestTenantIsSuspendedAndDeletedWhileServed(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	upper, lower := "0123456789-of-upper", "0123456789-of-lower"
	d := startServing(t, "", fmt.Sprintf("http: {tokens: {customer_A: %s, customer_a: %s}}", upper, lower))
	a, older := d.visit("Authorization", "Bearer "+upper), d.visitOlder("Authorization", "Bearer "+upper)
	b := d.visit("Authorization", "Bearer "+lower)

	if got := a.answer(`{"code":"secret = 42\nopen('a.txt','w').write('of A')","session_id":"s"}`); !strings.Contains(got,
		`\"success\":true`) {
		t.Fatal(got)
	}
	if got := b.answer(`{"code":"import os\nos.listdir('/workspace')","session_id":"s"}`); strings.Contains(got, "a.txt") {
		t.Errorf("customer_a sees files of customer_A: %s", got)
	}
	if got := b.answer(`{"code":"secret","session_id":"s"}`); !strings.Contains(got, "NameError") {
		t.Errorf("customer_a sees variables of customer_A: %s", got)
	}

	running := make(chan string, 1)
	go func() { running <- a.answer(`{"code":"import time\ntime.sleep(60)"}`) }()
	time.Sleep(300 * time.Millisecond) // it need not have started, but probably has
	d.command(t, "tenant", "suspend", "customer_A", "--reason", "unpaid")
	select {
	case got := <-running:
		if !strings.Contains(got, "suspended") || strings.Contains(got, "unpaid") {
			t.Errorf("the running execution: %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the running execution continues")
	}
	for name, v := range map[string]*visitor{"2026-07-28": a, "2025-11-25": older} {
		if got := v.answer(`{"code":"1"}`); !strings.Contains(got, "is suspended") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := b.value("6*7"); got != "42" {
		t.Errorf("customer_a gets %s", got)
	}

	d.command(t, "tenant", "activate", "customer_A")
	if got := a.answer(`{"code":"secret","session_id":"s"}`); !strings.Contains(got, "NameError") {
		t.Errorf("its interpreter survived the suspension: %s", got)
	}
	if got := a.value("open('a.txt').read()"); got != `"of A"` {
		t.Errorf("its file is %s", got)
	}

	d.command(t, "tenant", "delete", "customer_A", "--yes")
	if got := a.value("__import__('os').path.exists('a.txt')"); got != "false" {
		t.Errorf("after the deletion its file exists: %s", got)
	}
	if got := d.command(t, "tenant", "list"); !strings.Contains(got, "customer_A ") || !strings.Contains(got, "customer_a ") {
		t.Errorf("tenants: %s", got)
	}
	if _, err := os.Stat(d.workspace("customer_a")); err != nil {
		t.Error(err)
	}
}

// An API key identifies its tenant in every revision and over /sse, until it is revoked.
// Its scopes limit the tools.
func TestAPIKeysIdentifyTenants(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "http: {api_keys: true, sse: true}")
	key := func(uid string, flags ...string) string {
		lines := strings.Fields(d.command(t, append([]string{"tenant", "key", "new", uid}, flags...)...))
		return lines[len(lines)-1] // after the warning that there is no such tenant yet
	}
	upper, lower := key("customer_A"), key("customer_a")
	a, older := d.visit("Authorization", "Bearer "+upper), d.visitOlder("Authorization", "Bearer "+upper)
	b := d.visit("Authorization", "Bearer "+lower)
	if got := a.value("open('a.txt','w').write('of A')"); got != "4" {
		t.Fatal(got)
	}
	if got := older.value("open('a.txt').read()"); got != `"of A"` {
		t.Errorf("an older client of the same tenant reads %s", got)
	}
	if got := b.value("__import__('os').path.exists('a.txt')"); got != "false" {
		t.Errorf("customer_a sees files of customer_A: %s", got)
	}

	runs := d.visit("Authorization", "Bearer "+key("customer_A", "--scope", "execute"))
	if got := runs.value("open('a.txt').read()"); got != `"of A"` {
		t.Errorf("scope execute: %s", got)
	}
	for name, args := range map[string]string{"read_workspace_file": `{"filename":"a.txt"}`, "list_workspace_files": `{}`,
		"write_workspace_file": `{"filename":"x","content":""}`} {
		if got := runs.toolText(name, args); !strings.Contains(got, `does not have the scope \"files\"`) {
			t.Errorf("%s without scope files: %s", name, got)
		}
	}
	reads := d.visit("Authorization", "Bearer "+key("customer_A", "--scope", "files"))
	if got := reads.toolText("read_workspace_file", `{"filename":"a.txt"}`); !strings.Contains(got, "of A") {
		t.Errorf("scope files: %s", got)
	}
	if got := reads.toolText("execute_code", `{"code":"1"}`); !strings.Contains(got, `does not have the scope \"execute\"`) {
		t.Errorf("execute_code without scope execute: %s", got)
	}

	id := strings.Split(upper, "_")[1]
	d.command(t, "tenant", "key", "revoke", id)
	for name, v := range map[string]*visitor{"2026-07-28": a, "2025-11-25": older} {
		res := v.must(v.call(t.Context(), "1"))
		res.Body.Close()
		if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: a revoked key gets %s", name, res.Status)
		}
	}
	if got := b.value("6*7"); got != "42" {
		t.Errorf("another key gets %s", got)
	}
	for _, token := range []string{"", "sandpiper_", upper[:len(upper)-1], lower + "x"} {
		res := b.must(b.send(t.Context(), `{}`, "Authorization", "Bearer "+token))
		res.Body.Close()
		if res.StatusCode != 401 {
			t.Errorf("token %q gets %s", token, res.Status)
		}
	}
}
