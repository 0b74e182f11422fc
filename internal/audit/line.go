package audit

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Kind is the kind of event that a line records.
type Kind string

const (
	Execution     Kind = "execution"     // an execution ended, or was not started
	ToolCall      Kind = "tool_call"     // a call of a tool ended, or was refused
	Decision      Kind = "decision"      // a rule or a person allowed or refused a call
	Restore       Kind = "restore"       // tokens were restored to their values
	Login         Kind = "login"         // a login was created, deleted or refused
	Configuration Kind = "configuration" // the configuration of trust or permissions changed
	Flow          Kind = "flow"          // personal data was sent to a tool, or that was denied
	ModelCall     Kind = "model_call"    // code asked a language model, or tried to
	Access        Kind = "access"        // an id of another tenant was used, or one that the tenant does not have
	Recovery      Kind = "recovery"      // written by the log itself: see its outcomes below
)

var kinds = []Kind{Execution, ToolCall, Decision, Restore, Login, Configuration, Flow, ModelCall, Access}

// Outcomes of a Recovery.
const (
	torn        = "torn"         // an incomplete line that a crash had left was removed
	headMissing = "head_missing" // lines before it may have been truncated: the file head was missing
	headChanged = "head_changed" // likewise: the file head was not written with this key
	gap         = "gap"          // Lost lines were dropped
	retired     = "retired"      // lines up to Through may be deleted
)

// Line is the content of one line. Fields that do not apply are zero. Names are chosen
// by operator, servers and clients, and truncated if they are too long. Words are lower
// case, with underscores.
type Line struct {
	Kind        Kind           `json:"kind"`
	Tenant      tenant.ID      `json:"tenant,omitzero"` // zero if the event concerns all
	Session     string         `json:"session,omitempty"`
	Execution   string         `json:"execution,omitempty"`
	Server      string         `json:"server,omitempty"`
	Tool        string         `json:"tool,omitempty"`
	Types       map[string]int `json:"types,omitempty"`       // how many values of each type, as EMAIL
	Tokens      []string       `json:"tokens,omitempty"`      // such as [EMAIL_k7q2m9x4], never their values
	Destination string         `json:"destination,omitempty"` // a name: where values were sent
	Decision    string         `json:"decision,omitempty"`    // a word, such as allow
	Rule        string         `json:"rule,omitempty"`        // a name: the rule that decided
	Approval    string         `json:"approval,omitempty"`    // ID of the approval
	By          string         `json:"by,omitempty"`          // a word: where the approval was answered, such as client
	Outcome     string         `json:"outcome,omitempty"`     // a word, such as completed
	Duration    time.Duration  `json:"duration_ns,omitempty"`
	// of an Execution, its calls of tools; of a ModelCall, its tokens; of a Login or an Access, how many were refused
	Count   int64  `json:"count,omitempty"`
	Section string `json:"section,omitempty"` // of a Configuration: the part that changed, such as servers
	Lost    int64  `json:"lost,omitempty"`    // of a Recovery
	Through int64  `json:"through,omitempty"` // likewise
	At      string `json:"at,omitempty"`      // hash of the line Through
}

const (
	maxNameBytes = 128
	maxTokens    = 1000 // of one line; more are split over several
	maxTypes     = 64
)

var (
	word      = lazyregexp.New(`^[a-z][a-z0-9_]{0,31}$`)
	typeName  = lazyregexp.New(`^[A-Z][A-Z0-9_]{1,31}$`)
	tokenForm = lazyregexp.New(`^\[[A-Z][A-Z0-9_]{1,31}_[0-9a-hjkmnp-tv-z]{8,64}\]$`)
)

// check rejects fields that could hold a value, and truncates names. Errors quote only
// the kind.
func (l *Line) check() error {
	if !slices.Contains(kinds, l.Kind) || l.Lost != 0 || l.Through != 0 || l.At != "" {
		return fault.New(fault.Invalid, "%.40q is not a valid kind of an audit line", string(l.Kind))
	}
	for _, w := range []string{l.Decision, l.Outcome, l.By} {
		if w != "" && !word().MatchString(w) {
			return fault.New(fault.Invalid, "a decision or outcome of the audit log is one word in lower case")
		}
	}
	if len(l.Types) > maxTypes {
		return fault.New(fault.Invalid, "a line of the audit log has at most %d types, not %d", maxTypes, len(l.Types))
	}
	for t := range l.Types {
		if !typeName().MatchString(t) {
			return fault.New(fault.Invalid, "a type in the audit log is a name in capitals, such as EMAIL")
		}
	}
	for _, t := range l.Tokens {
		if !tokenForm().MatchString(t) {
			return fault.New(fault.Invalid, "a token in the audit log does not have the form of a token")
		}
	}
	for _, name := range []*string{&l.Session, &l.Execution, &l.Server, &l.Tool, &l.Destination, &l.Rule, &l.Approval, &l.Section} {
		*name = shorten(*name)
	}
	return nil
}

func shorten(name string) string {
	if len(name) <= maxNameBytes {
		return name
	}
	n := maxNameBytes
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

// split divides a line with too many tokens, since the size of a line is limited.
func (l Line) split() []Line {
	if len(l.Tokens) <= maxTokens {
		return []Line{l}
	}
	var all []Line
	for some := range slices.Chunk(l.Tokens, maxTokens) {
		part := l
		part.Tokens = some
		if len(all) > 0 {
			part.Types, part.Duration = nil, 0
		}
		all = append(all, part)
	}
	return all
}

// Record is a line with its position in the log.
type Record struct {
	Seq  int64     `json:"seq"`  // from 1, without gaps
	Time time.Time `json:"time"` // when it was added to the log
	Line
	Prev string `json:"prev"`           // hash of the line before; that of the first is 64 zeros
	Hash string `json:"hash,omitempty"` // of this line up to here
}
