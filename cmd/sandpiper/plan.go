package main

import (
	"cmp"
	"fmt"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
)

// printPlan prints what a dry run would do, one call a line.
func (a *app) printPlan(r reply.Result) {
	if r.Plan == nil {
		return
	}
	s := styleFor(a.stderr)
	if len(r.Plan) == 0 {
		fmt.Fprintln(a.stderr, s.dim("the plan is empty: the code calls nothing that may change something"))
	}
	for _, c := range r.Plan {
		a.printf("%d. %s %s\n", c.Call, visibleName(c.String()), visible(string(c.Args)))
		for _, ref := range c.References {
			a.printf("   %s is %s of the result of call %d\n", visibleName(ref.Argument.String()), visibleName(cmp.Or(ref.Result.String(), "all")), ref.Call)
		}
	}
	if r.PlanEndsAt != nil {
		fmt.Fprintln(a.stderr, s.yellow("note:"), visible(r.PlanEndsAt.Note))
	}
	if r.PlanID != "" {
		fmt.Fprintln(a.stderr, s.dim("to look at it once more, approve it and carry it out, within a day: sandpiper executions resume "+r.PlanID))
	}
}
