package process

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// A container with the shipped profile allows everything that a worker may call: a call that only
// the container denies would fail in code that works outside.
func TestContainerProfileAllowsCallsOfWorkers(t *testing.T) {
	if _, err := os.Stat("../../../go.mod"); err != nil {
		t.Skip("the test reads the module's files and runs the go command")
	}
	b, err := os.ReadFile("../../../packaging/seccomp.json")
	if err != nil {
		t.Fatal(err)
	}
	var profile struct {
		Syscalls []struct {
			Names  []string
			Action string
		}
	}
	if err := json.Unmarshal(b, &profile); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range profile.Syscalls {
		if s.Action != "SCMP_ACT_ALLOW" {
			t.Errorf("the action %s", s.Action)
		}
		names = append(names, s.Names...)
	}
	rules := workerRules()
	for call, nr := range callNumbers(t) {
		if class := classOf(rules, nr); (class == "allowed" || class == "checked") && !slices.Contains(names, call) {
			t.Errorf("%s is not in the profile", call)
		}
	}
}
