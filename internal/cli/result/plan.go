package result

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
)

// printPlan prints the plan of a dry run, one call per line.
func printPlan(env *cli.Env, r reply.Result) {
	if r.Plan == nil {
		return
	}
	s := cli.StyleFor(env.Stderr)
	if len(r.Plan) == 0 {
		fmt.Fprintln(env.Stderr, s.Dim("the plan is empty: the code makes no call with possible side effects"))
	}
	for _, c := range r.Plan {
		env.Printf("%d. %s %s\n", c.Call, cli.VisibleName(c.String()), cli.Visible(string(c.Args)))
		for _, ref := range c.References {
			env.Printf("   %s is %s of the result of call %d\n", cli.VisibleName(ref.Argument.String()),
				cli.VisibleName(cmp.Or(ref.Result.String(), "all")), ref.Call)
		}
	}
	if r.PlanEndsAt != nil {
		fmt.Fprintln(env.Stderr, s.Yellow("note:"), cli.Visible(r.PlanEndsAt.Note))
	}
	if r.PlanID != "" {
		fmt.Fprintln(env.Stderr, s.Dim("to approve and apply the plan within 24 hours: "+strings.Trim(cli.Completed(env,
			"`sandpiper executions resume "+r.PlanID+"`"), "`")))
	}
}
