package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// answer calls execute_code and returns the body of the response.
func (v *visitor) answer(args string) string {
	v.t.Helper()
	res := v.must(v.tool(v.t.Context(), "execute_code", args))
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
	t.Parallel()
	needSandbox(t)
	upper, lower := "0123456789-of-upper", "0123456789-of-lower"
	d := serveHTTP(t, "", fmt.Sprintf("http: {tokens: {customer_A: %s, customer_a: %s}}", upper, lower))
	a, older := d.visit("Authorization", "Bearer "+upper), d.visitOlder("Authorization", "Bearer "+upper)
	b := d.visit("Authorization", "Bearer "+lower)

	if got := a.answer(`{"code":"secret = 42\nopen('a.txt','w').write('of A')","session_id":"s"}`); !strings.Contains(got, `\"success\":true`) {
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
