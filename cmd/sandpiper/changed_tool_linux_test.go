package main

import (
	"strings"
	"testing"
)

// The arguments of a tool change while an execution that has called it is suspended. It stops
// when it is resumed, and its error names the tool.
func TestChangedToolStopsASuspendedExecution(t *testing.T) {
	t.Parallel()
	s := serveChanging(t)
	r := s.call("", "from servers.moody import greet\ngreet(name='Ada')\nresult = wait_for('go')")
	if !strings.Contains(string(r.raw), `"error_type":"suspended"`) {
		t.Fatalf("%s", r.raw)
	}
	if got := s.call("", "from servers.moody import change, greet\n"+until+
		"change()\nresult = until(lambda: greet(name='Ada'))"); !strings.Contains(string(got.Result), "quarantined") {
		t.Fatalf("%s", got.raw)
	}
	command(t, s.cmd.Dir, "executions", "signal", r.ID, "go", "1")
	out, err := sandpiper(s.cmd.Dir, "executions", "watch", r.ID).CombinedOutput()
	if want := "the tool moody.greet, which the first run called as call 1, cannot be called any more: moody.greet is quarantined"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%s, %v, want %q", out, err, want)
	}
}
