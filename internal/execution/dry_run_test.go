package execution_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
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
	r := done(t, s.start(t, t.Context(), home, execution.Request{Code: "call plan_ends " + `{"call": 1, "line": 3, "why": "looks at it"}` +
		"\nraise PlanEnds x", DryRun: true}))
	if !r.Success() || r.PlanEndsAt == nil || r.PlanEndsAt.Line != 3 || r.Plan == nil || r.PlanID != "" {
		t.Errorf("%+v", r)
	}
	r = done(t, s.start(t, t.Context(), home, execution.Request{Code: "raise PlanEnds faked", DryRun: true}))
	if r.Success() || r.PlanEndsAt != nil {
		t.Errorf("faked: %+v", r)
	}
}

// A plan is applied with the servers that its dry run had, whichever the person's connection has.
func TestPlanKeepsItsSubset(t *testing.T) {
	var views []string
	cat, err := catalog.Open(catalog.Config{Dir: t.TempDir(), Servers: []catalog.Configured{{Name: "crm"}},
		Allow: func(v catalog.Viewer) []*catalog.Allow {
			views = append(views, v.Subset)
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cat.Put(t.Context(), "crm", catalog.Listing{Tools: []tool.Definition{{Ref: tool.Ref{Server: "crm", Tool: "find"},
		Input: json.RawMessage(`{"type":"object"}`)}}}); err != nil {
		t.Fatal(err)
	}
	calls := toolcall.New(toolcall.Config{Catalog: cat, Upstream: callerFunc(func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Structured: json.RawMessage(`{"n":1}`)}, nil
	})})
	l := &restarts{dir: t.TempDir(), tools: &execution.Tools{Catalog: cat, Calls: calls}}
	s, home := l.restart(t, nil)
	r := done(t, s.start(t, t.Context(), home, execution.Request{Code: callFind, DryRun: true, Subset: "office"}))
	if r.PlanID == "" {
		t.Fatalf("%+v", r)
	}
	views = nil
	x, err := s.Resume(t.Context(), home, r.PlanID)
	if err != nil {
		t.Fatal(err)
	}
	e, err := x.Next(t.Context())
	if err != nil || len(e.Questions) != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	answer := question.Answer{e.Questions[0].ID: accept(`{"approve":true}`)}
	if _, err := s.Attach(t.Context(), home, r.PlanID, answer); err != nil {
		t.Fatal(err)
	}
	if r := done(t, x); !r.Success() || len(views) == 0 || slices.ContainsFunc(views, func(v string) bool { return v != "office" }) {
		t.Errorf("%+v with the subsets %q", r, views)
	}
}
