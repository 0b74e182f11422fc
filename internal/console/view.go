package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/preview"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// requestView is a request as the page shows it. All text of servers and code is visible:
// invisible characters and changes of direction are escaped.
type requestView struct {
	Plan, Open, Damaged          bool
	Call                         int // number of a call that the request asks about; 0 for an approval
	Server, Tool, Tenant         string
	Rule, Reason, Execution      string
	Session, Client              string
	Arguments, Code              block
	Choices                      []choice
	Expires, Left                string
	State, Outcome, Note, Headed string
}

// block is a text of which the page shows the beginning, and all of it on demand.
type block struct {
	Text string
	All  string // "" if Text is all
	Size string // of All
	Lost int    // bytes that are not stored
}

// choice is a scope that an approval may have.
type choice struct{ Value, Name, Effect string }

func newView(r approval.Request, id tenant.ID, now time.Time) *requestView {
	v := &requestView{
		Plan: r.Kind == approval.Plan, Open: r.State == approval.Open && !r.Damaged, Damaged: r.Damaged,
		Server: approval.Escape(r.Server), Tool: approval.Escape(r.Tool), Tenant: approval.Escape(id.String()),
		Rule: approval.Escape(r.Rule), Reason: approval.Escape(r.Reason), Execution: approval.Escape(r.Execution),
		Session: approval.Escape(r.Session), Client: approval.Escape(r.Origin.Client),
		Arguments: argumentsOf(r), Code: codeOf(r), Choices: choices(r), Expires: r.Expires.UTC().
				Format("2006-01-02 15:04:05 UTC"), Left: left(r.Expires.Sub(now)),
		State: string(r.State), Note: approval.Escape(r.Note),
	}
	v.Outcome = outcome(r)
	if r.Kind == approval.Outcome {
		v.Call, v.Rule, v.Note = r.Occurrence, "", ""
	}
	return v
}

// pageLimits are those of the arguments that the page shows at first.
var pageLimits = preview.Limits{Text: 1000, Rows: 10, Size: 16 << 10}

func argumentsOf(r approval.Request) block {
	text, left := r.Preview(pageLimits)
	b := block{Text: outdent(text)}
	if left {
		all, _ := r.Preview(preview.Limits{})
		b.All = outdent(all)
		b.Size = preview.Number(strings.Count(all, "\n")+1) + " lines, " + preview.Number(len(r.Shown)) + " bytes"
	}
	return b
}

func codeOf(r approval.Request) block {
	code := r.Origin.Code
	if code == "" {
		return block{}
	}
	text, left := r.Code()
	b := block{Text: outdent(text), Lost: r.Origin.CodeLeft}
	if left {
		b.All, b.Size = outdent(preview.AllCode(code)), preview.Number(strings.Count(strings.TrimRight(code, "\n"), "\n")+1)+" lines"
	}
	return b
}

// outdent removes the indentation of a preview: the page has a box around it.
func outdent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n"+preview.Indent, "\n"), preview.Indent)
}

// choices returns the scopes; none if there is only one.
func choices(r approval.Request) (all []choice) {
	for _, s := range r.Scopes() {
		title, effect, _ := strings.Cut(r.Effect(s), ": ")
		all = append(all, choice{string(s), title, effect})
	}
	if len(all) == 1 {
		return nil
	}
	return all
}

func (v *requestView) title() string {
	switch {
	case v.Plan:
		return "Calls of a plan"
	case v.Call > 0:
		return "What happened to " + v.Server + "." + v.Tool + "?"
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
	further := ""
	if r.Scope != grant.Once {
		_, effect, _ := strings.Cut(r.Effect(r.Scope), ": ")
		further = " It also allows " + strings.TrimPrefix(effect, "also ") + "."
	}
	at := r.Answered.UTC().Format("2006-01-02 15:04:05 UTC")
	if d := r.Decision(); d.Outcome != "" {
		means := map[string]string{tool.TookEffect: "it took effect", tool.NoEffect: "it did not take effect, and is made",
			tool.Stop: "the execution ends"}
		return "Answered at " + at + by + ": " + means[d.Outcome] + "."
	}
	switch r.State {
	case approval.Approved:
		return "Approved at " + at + by + ". The call is made once, exactly as shown." + further
	case approval.Used:
		return "Approved at " + at + by + ", and the call was made." + further
	case approval.Denied:
		return "Denied at " + at + by + "."
	case approval.Expired:
		return "Expired at " + r.Expires.UTC().Format("2006-01-02 15:04:05 UTC") + ". Nothing was called."
	case approval.Withdrawn:
		return "Withdrawn: nothing waits for the answer any more."
	}
	return ""
}
