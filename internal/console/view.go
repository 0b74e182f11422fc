package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// requestView is a request as the page shows it. All text of servers and code is visible:
// invisible characters and changes of direction are escaped.
type requestView struct {
	Plan, Open, Damaged          bool
	Server, Tool, Tenant         string
	Rule, Reason, Execution      string
	Arguments                    string
	Expires, Left                string
	State, Outcome, Note, Headed string
}

func newView(r approval.Request, id tenant.ID, now time.Time) *requestView {
	lines, _ := r.Indented(0)
	text := strings.TrimPrefix(strings.ReplaceAll(lines, "\n    ", "\n"), "    ") // the page has a box around them
	v := &requestView{
		Plan: r.Kind == approval.Plan, Open: r.State == approval.Open && !r.Damaged, Damaged: r.Damaged,
		Server: approval.Escape(r.Server), Tool: approval.Escape(r.Tool), Tenant: approval.Escape(id.String()),
		Rule: approval.Escape(r.Rule), Reason: approval.Escape(r.Reason), Execution: approval.Escape(r.Execution),
		Arguments: text, Expires: r.Expires.UTC().Format("2006-01-02 15:04:05 UTC"), Left: left(r.Expires.Sub(now)),
		State: string(r.State), Note: approval.Escape(r.Note),
	}
	v.Outcome = outcome(r)
	return v
}

func (v *requestView) title() string {
	switch {
	case v.Plan:
		return "Calls of a plan"
	case v.Open:
		return "Approve " + v.Server + "." + v.Tool + "?"
	}
	return v.Server + "." + v.Tool
}

// left describes the time until a request expires.
func left(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
	return fmt.Sprintf("%d hours %d minutes", int(d.Hours()), int(d.Minutes())%60)
}

// outcome describes the state of a request that accepts no answer.
func outcome(r approval.Request) string {
	by := ""
	if r.By != "" {
		by = " by the " + strings.ReplaceAll(r.By, "_", " ")
	}
	at := r.Answered.UTC().Format("2006-01-02 15:04:05 UTC")
	switch r.State {
	case approval.Approved:
		return "Approved at " + at + by + ". The call is made once, exactly as shown."
	case approval.Used:
		return "Approved at " + at + by + ", and the call was made."
	case approval.Denied:
		return "Denied at " + at + by + "."
	case approval.Expired:
		return "Expired at " + r.Expires.UTC().Format("2006-01-02 15:04:05 UTC") + ". Nothing was called."
	case approval.Withdrawn:
		return "Withdrawn: nothing waits for the answer any more."
	}
	return ""
}
