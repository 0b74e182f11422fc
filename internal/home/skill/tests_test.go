package skill_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

var recorded = skill.Test{
	Code:    "from skills import x",
	Answers: []skill.Answer{{Method: "call_tool", Args: []byte(`{"a":1}`), Answer: journal.Answer{Value: []byte(`"the secret answer"`)}}},
	Result:  shape.Learn([]byte(`[1]`)),
}

func (h *home) addTest(t *testing.T, test skill.Test) int {
	t.Helper()
	n, err := h.AddTest(t.Context(), "x", test)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTestsAreStoredEncrypted(t *testing.T) {
	a, b := open(t, skill.Config{}), open(t, skill.Config{})
	a.save(t, "x", "1")
	b.save(t, "x", "1")
	other := recorded
	other.Code = "2"
	if first, second, again := a.addTest(t, recorded), a.addTest(t, other), a.addTest(t, recorded); first != 1 || second != 2 || again != 1 {
		t.Errorf("numbers %d, %d, %d", first, second, again)
	}
	all, err := a.Tests(t.Context(), "x")
	if err != nil || len(all) != 2 || time.Since(all[0].Recorded) > time.Minute {
		t.Fatalf("%+v, %v", all, err)
	}
	want := recorded
	want.Number, want.Recorded = 1, all[0].Recorded
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Error(diff)
	}
	if all, err := b.Tests(t.Context(), "x"); err != nil || len(all) != 0 {
		t.Errorf("another tenant: %+v, %v", all, err)
	}
	for _, file := range []string{a.path, a.path + "-wal"} {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("secret answer")) {
			t.Errorf("%s contains the answer", file)
		}
	}
	if n, err := a.DeleteTests(t.Context(), "x"); n != 2 || err != nil {
		t.Error(n, err)
	}
	a.addTest(t, recorded)
	if err := a.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	a.save(t, "x", "1")
	if all, err := a.Tests(t.Context(), "x"); err != nil || len(all) != 0 {
		t.Errorf("of a deleted skill: %+v, %v", all, err)
	}
}

func TestLimitsOfTests(t *testing.T) {
	a := open(t, skill.Config{})
	if _, err := a.AddTest(t.Context(), "x", recorded); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of a missing skill: %v", err)
	}
	a.save(t, "x", "1")
	if _, err := a.AddTest(t.Context(), "x", skill.Test{Code: strings.Repeat("x", skill.MaxTestBytes)}); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("a large test: %v", err)
	}
	for i := range 20 {
		a.addTest(t, skill.Test{Code: fmt.Sprint(i)})
	}
	_, err := a.AddTest(t.Context(), "x", skill.Test{Code: "one more"})
	if fault.KindOf(err) != fault.Exhausted || fault.Message(err) != `skill "x" has 20 tests, which is the maximum` {
		t.Error(err)
	}
	a.addTest(t, skill.Test{Code: "7"})
}

func TestTestsWithAnotherKey(t *testing.T) {
	a := open(t, skill.Config{})
	a.save(t, "x", "1")
	a.addTest(t, recorded)
	cfg := a.cfg
	cfg.Key = bytes.Repeat([]byte{1}, 32)
	to := reopen(t, cfg)
	if _, err := to.Tests(t.Context(), "x"); fault.KindOf(err) != fault.Internal {
		t.Errorf("with another key: %v", err)
	}
	if damaged, err := a.Rekey(t.Context(), to); damaged != 0 || err != nil {
		t.Error(damaged, err)
	}
	if all, err := to.Tests(t.Context(), "x"); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if damaged, err := a.Rekey(t.Context(), to); damaged != 1 || err != nil {
		t.Errorf("with the wrong key: %d damaged, %v", damaged, err)
	}
}
