package approval

import (
	"cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Via is the way in which persons are asked for approval, and by which they answer.
type Via string

const (
	ViaBoth     Via = "both"     // in a form of the client, and by the operator; the first answer counts
	ViaClient   Via = "client"   // only in a form of a client, or at the terminal of a command that runs code
	ViaOperator Via = "operator" // only at the command line, on the page or by the program that embeds Sandpiper
)

// ViaOf returns how the requests of a store are answered now.
func ViaOf(s *Store) Via {
	if s == nil || s.cfg.Via == nil {
		return ViaBoth
	}
	return cmp.Or(s.cfg.Via(), ViaBoth)
}

// Approve returns the words that ask a person to approve calls or plans.
func (v Via) Approve(ids ...string) string {
	if v == ViaClient {
		return "use a client that shows forms, since approvals.via is client"
	}
	return fault.Approve(ids...)
}

// check returns an error for an answer that was not given in this way.
func (v Via) check(id string, a Answer) error {
	switch {
	case v == ViaClient && !a.Asked:
		return fault.New(fault.Denied, "approval %s can only be answered in a form of a client, since approvals.via is client", id).
			WithHint("call resume_execution in a client that shows forms, or set approvals.via to both")
	case v == ViaOperator && a.By == Client:
		return fault.New(fault.Denied, "approval %s cannot be answered in a form of a client, since approvals.via is operator", id).
			WithHint("%s", fault.Approve(id))
	}
	return nil
}

// Waiting is the cause of the error of a call that was not made, because it waits for an approval.
type Waiting struct{ ID string }

func (w *Waiting) Error() string { return "approval " + w.ID + " is open" }
