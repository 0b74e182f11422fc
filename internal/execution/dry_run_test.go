package execution_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestDryRunRejectsSession(t *testing.T) {
	s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{})
	_, err := s.Start(t.Context(), newHome(t, "a"), execution.Request{Code: "result 1", DryRun: true, SessionID: "s"})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "dry_run") {
		t.Errorf("%v", err)
	}
}

func TestEndPlanRequiresDryRun(t *testing.T) {
	s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{})
	home := newHome(t, "a")
	for _, row := range []struct {
		dry  bool
		args string
		want string
	}{
		{false, `{"call": 1, "line": 3, "why": "looks at it"}`, "plan_ends can be called only in a dry run"},
		{true, `{"call": 1, "line": -3, "why": "looks at it"}`, "invalid line or reason"},
		{true, `{"call": 1, "line": 3, "why": "` + strings.Repeat("x", 2000) + `"}`, "invalid line or reason"},
	} {
		r := done(t, s.start(t, t.Context(), home, execution.Request{Code: "call plan_ends " + row.args, DryRun: row.dry}))
		if r.Success() || !strings.Contains(r.Error, row.want) || r.PlanEndsAt != nil {
			t.Errorf("%s: %+v", row.args, r)
		}
	}
	r := done(t, s.start(t, t.Context(), home, execution.Request{Code: "call plan_ends " + `{"call": 1, "line": 3, "why": "looks at it"}` + "\nraise PlanEnds x", DryRun: true}))
	if !r.Success() || r.PlanEndsAt == nil || r.PlanEndsAt.Line != 3 || r.Plan == nil || r.PlanID != "" {
		t.Errorf("%+v", r)
	}
	r = done(t, s.start(t, t.Context(), home, execution.Request{Code: "raise PlanEnds faked", DryRun: true}))
	if r.Success() || r.PlanEndsAt != nil {
		t.Errorf("faked: %+v", r)
	}
}
