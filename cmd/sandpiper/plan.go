package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
)

// printPlan prints the plan of a dry run, one call per line.
func printPlan(env *app, r reply.Result) {
	if r.Plan == nil {
		return
	}
	s := styleFor(env.stderr)
	if len(r.Plan) == 0 {
		fmt.Fprintln(env.stderr, s.dim("the plan is empty: the code makes no call with possible side effects"))
	}
	for _, c := range r.Plan {
		env.printf("%d. %s %s\n", c.Call, visibleName(c.String()), visible(string(c.Args)))
		for _, ref := range c.References {
			env.printf("   %s is %s of the result of call %d\n", visibleName(ref.Argument.String()), visibleName(cmp.Or(ref.Result.String(), "all")), ref.Call)
		}
	}
	if r.PlanEndsAt != nil {
		fmt.Fprintln(env.stderr, s.yellow("note:"), visible(r.PlanEndsAt.Note))
	}
	if r.PlanID != "" {
		fmt.Fprintln(env.stderr, s.dim("to approve and apply the plan within 24 hours: "+strings.Trim(completed(env, "`sandpiper executions resume "+r.PlanID+"`"), "`")))
	}
}
