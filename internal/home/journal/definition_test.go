package journal_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func TestChangedToolIsADivergence(t *testing.T) {
	t.Parallel()
	gone := fault.New(fault.Denied, "crm.find is quarantined")
	for _, c := range []struct {
		tool, definition string
		err              error
		want             string
	}{
		{"find", "aa", nil, ""},
		{"other", "bb", nil, ""},
		{"find", "bb", nil, "the tool crm.find, which the first run called as call 1, has another schema of its arguments than in the " +
			"first run"},
		{"find", "aa", gone, "the tool crm.find, which the first run called as call 1, cannot be called any more: crm.find is quarantined"},
	} {
		d := start(t, t.TempDir())
		r := d.NewRecord("exec_1", nothing, false)
		v := value("1")
		v.Definition = "aa"
		if err := r.Done(t.Context(), begin(t, r, ask("find", `{}`)), journal.Answered, &v); err != nil {
			t.Fatal(err)
		}
		if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"}); err != nil {
			t.Fatal(err)
		}
		again := resume(t, d, "exec_1")
		err := journal.CheckTool(again, tool.Ref{Server: "crm", Tool: c.tool}, c.definition, c.err)
		if _, ok := errors.AsType[*journal.Divergence](err); ok != (c.want != "") || ok && fault.Message(err) != c.want {
			t.Errorf("%s %s: %v, want %q", c.tool, c.definition, err, c.want)
		}
		if c.want == "" {
			if a := next(t, again, ask("find", `{}`)); string(a.Answer.Value) != "1" {
				t.Errorf("the answer is %+v", a)
			}
			if err := journal.CheckTool(again, tool.Ref{Server: "crm", Tool: "find"}, "bb", nil); err != nil {
				t.Errorf("after the replay: %v", err)
			}
		}
	}
}

func TestChangedSkillIsADivergence(t *testing.T) {
	t.Parallel()
	for hash, want := range map[string]string{
		"aa": "",
		"bb": "the skill high_risk, which the first run imported, has been changed since",
		"":   "the skill high_risk, which the first run imported, has been deleted since",
	} {
		d := start(t, t.TempDir())
		r := d.NewRecord("exec_1", nothing, false)
		journal.AddSkill(r, "high_risk", "aa")
		journal.AddSkill(r, "high_risk", "aa")
		if got := journal.Skills(r); got != nil {
			t.Errorf("the first run is compared with itself: %v", got)
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.End(t.Context(), journal.End{State: journal.Ended, Outcome: journal.Unsuccessful, Reason: "cancelled"}); err != nil {
			t.Fatal(err)
		}
		again := resume(t, d, "exec_1")
		if d := cmp.Diff([]string{"high_risk"}, journal.Skills(again)); d != "" {
			t.Error(d)
		}
		err := journal.CheckSkill(again, "high_risk", hash)
		if _, ok := errors.AsType[*journal.Divergence](err); ok != (want != "") || ok && fault.Message(err) != want {
			t.Errorf("%q: %v, want %q", hash, err, want)
		}
		if _, err := again.Next(t.Context(), ask("find", `{}`)); (err != nil) != (want != "") {
			t.Errorf("%q: the next call: %v", hash, err)
		}
	}
}
