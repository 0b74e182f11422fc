package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const chargeSkill = "from servers import ledger\n\ndef charge(n):\n    return ledger.add(n=n)\n"

func saveSkill(t *testing.T, dir, code string) {
	t.Helper()
	save := sandpiper(dir, "skills", "save", "charge", "-")
	save.Stdin = strings.NewReader(code)
	if out, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// A skill changes while a background execution that has imported it waits. The execution stops when it
// is continued, with an error that names the skill, and makes no call. After the former code is saved
// again, it can be resumed.
func TestChangedSkillStopsAWaitingExecution(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	saveSkill(t, dir, chargeSkill)
	serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c",
		"from skills import charge\ncharge(1)\nwait_for('go')\nresult = charge(2)")
	awaitState(t, dir, "waiting")
	saveSkill(t, dir, strings.Replace(chargeSkill, "n=n", "n=n + 10", 1))
	command(t, dir, "executions", "signal", id, "go", "1")
	out, err := sandpiper(dir, "executions", "watch", id).CombinedOutput()
	if want := "the skill charge, which the first run imported, has been changed since"; err == nil || !strings.Contains(string(out),
		want) {
		t.Errorf("%s, %v, want %q", out, err, want)
	}
	if diff := cmp.Diff(map[int]int{1: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
	saveSkill(t, dir, chargeSkill)
	command(t, dir, "executions", "resume", id) // with the signal, which its code has not received
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1}, entered(t, ledger)); diff != "" {
		t.Error(diff)
	}
}
