package execution_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestADryRunGoesWithNoSession(t *testing.T) {
	s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{})
	_, err := s.Start(t.Context(), newHome(t, "a"), execution.Request{Code: "result 1", DryRun: true, SessionID: "s"})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "dry_run") {
		t.Errorf("%v", err)
	}
}

func TestOnlyADryRunHasAPlanThatEnds(t *testing.T) {
	s := newSetup(t, execution.Config{}, fake.Config{}, admit.Config{})
	home := newHome(t, "a")
	for _, row := range []struct {
		dry  bool
		args string
		want string
	}{
		{false, `{"call": 1, "line": 3, "why": "looks at it"}`, "only a dry run has a plan"},
		{true, `{"call": 1, "line": -3, "why": "looks at it"}`, "no place where a plan ends"},
		{true, `{"call": 1, "line": 3, "why": "` + strings.Repeat("x", 2000) + `"}`, "no place where a plan ends"},
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
