package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// The worst workflows and inputs below the limits of their sizes are refused, by a daemon that has
// 1 GiB of memory, while another tenant is served.
func TestWorstInputsOfOneTenantLeaveOthersAlone(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	const alice, bob = "alices-token-alices-token-alices-1", "bobs-token-bobs-token-bobs-token-1"
	d := startServing(t, "", "profile: full\nhttp: {tokens: {alice: "+alice+", bob: "+bob+"}}\n")
	if err := unix.Prlimit(d.pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1 << 30, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	step := func(config string) string {
		return "name: w\nsteps:\n  - {name: a, type: tool_call, config: {tool: s.t, arguments: {x: " + config + "}}}\n"
	}
	const many = 400_000
	doubling := "inputs: {$defs: {s: {allOf: [{properties: {a: {$ref: '#/$defs/s'}}}, {properties: {a: {$ref: '#/$defs/s'}}}]}}, " +
		"properties: {a: {$ref: '#/$defs/s'}}}\n"
	sources := map[string]string{
		"lists":       step(strings.Repeat("[", many) + strings.Repeat("]", many)),
		"2,000 lists": step(strings.Repeat("[", 2000) + strings.Repeat("]", 2000)),
		"mappings":    step(strings.Repeat("{a: ", many/5) + "1" + strings.Repeat("}", many/5)),
		"items":       step(strings.Repeat("[", 50) + strings.Repeat("1, ", many/2) + strings.Repeat("]", 50)),
		"keys":        "name: w\n" + strings.Repeat("k: 1\n", many/3),
		"documents":   strings.Repeat("---\n", many/2) + step("1"),
		"expressions": step(`"` + strings.Repeat("${{ steps.a.result }}", many/30) + `"`),
		"lines of code": "name: w\nsteps:\n  - name: a\n    type: code_execution\n    config:\n      code: |\n" +
			strings.Repeat("        x\n", many/10),
		"inputs": "name: doubling\n" + doubling + "steps: [{name: a, type: code_execution, config: {code: return 1}}]\n",
	}
	served, stop := make(chan time.Duration), make(chan struct{})
	go func() { // the longest time in which the other tenant is served
		v, longest := d.visit("Authorization", "Bearer "+bob), time.Duration(0)
		defer func() { served <- longest }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			start := time.Now()
			if got := v.run("", "1+1"); string(got.Result) != "2" {
				t.Errorf("%s %s", got.Result, got.Error)
				return
			}
			longest = max(longest, time.Since(start))
		}
	}()
	v := d.visit("Authorization", "Bearer "+alice)
	for name, source := range sources {
		args, err := json.Marshal(map[string]string{"source": source})
		if err != nil {
			t.Fatal(err)
		}
		got := v.toolText("save_workflow", string(args))
		if saved := strings.Contains(got, "' saved"); saved != (name == "inputs") {
			t.Errorf("%s: %.500s", name, got)
		}
	}
	got := v.toolText("run_workflow", `{"name": "doubling", "inputs": {"a": `+strings.Repeat(`{"a": `, 100)+"1"+strings.Repeat("}",
		100)+"}}")
	if !strings.Contains(got, "too much work") {
		t.Errorf("%.500s", got)
	}
	close(stop)
	if longest := <-served; longest > 2*time.Second {
		t.Errorf("the other tenant waited for %s", longest)
	}
}
