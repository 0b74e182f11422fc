package audit

import (
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Kind says what a line is about.
type Kind string

const (
	Execution     Kind = "execution"     // code ended, or was not run
	ToolCall      Kind = "tool_call"     // a call of a tool ended, or was refused
	Decision      Kind = "decision"      // a rule or a person allowed or refused a call
	Restore       Kind = "restore"       // tokens became their values again
	Login         Kind = "login"         // a login was made, forgotten or refused
	Configuration Kind = "configuration" // what is trusted or allowed became something else
	Flow          Kind = "flow"          // personal data went to a tool, or was kept from it
	Recovery      Kind = "recovery"      // written by the log itself: see the outcomes below
)

var kinds = []Kind{Execution, ToolCall, Decision, Restore, Login, Configuration, Flow}

// Outcomes of a Recovery.
const (
	torn        = "torn"         // a line that a crash had left half written was cut off
	headMissing = "head_missing" // lines before it may have been cut off: nothing said how many there were
	headChanged = "head_changed" // likewise: what says it was not written with this key
	gap         = "gap"          // Lost lines were never written
	retired     = "retired"      // lines up to Through are old enough to be deleted
)

// Line is one line, as far as whoever adds it knows. Fields that do not apply are
// zero. Names are those that operator, servers and clients chose; what a name is
// too long for is cut. Words are lower case, with underscores.
type Line struct {
	Kind        Kind           `json:"kind"`
	Tenant      tenant.ID      `json:"tenant,omitzero"` // zero for what concerns all of them
	Session     string         `json:"session,omitempty"`
	Execution   string         `json:"execution,omitempty"`
	Server      string         `json:"server,omitempty"`
	Tool        string         `json:"tool,omitempty"`
	Types       map[string]int `json:"types,omitempty"`       // how many values of each type, as EMAIL
	Tokens      []string       `json:"tokens,omitempty"`      // such as [EMAIL_k7q2m9x4d3w8n5rt], never what they stand for
	Destination string         `json:"destination,omitempty"` // a name: where values went
	Decision    string         `json:"decision,omitempty"`    // a word, such as allow
	Rule        string         `json:"rule,omitempty"`        // a name: what decided
	Approval    string         `json:"approval,omitempty"`    // id of the question to a person
	By          string         `json:"by,omitempty"`          // a word: who answered it, such as client
	Outcome     string         `json:"outcome,omitempty"`     // a word, such as completed
	Duration    time.Duration  `json:"duration_ns,omitempty"`
	Count       int64          `json:"count,omitempty"`   // of an Execution, its calls of tools; of a Login, how many were refused
	Section     string         `json:"section,omitempty"` // of a Configuration: the part that changed, such as servers
	Lost        int64          `json:"lost,omitempty"`    // of a Recovery
	Through     int64          `json:"through,omitempty"` // likewise
	At          string         `json:"at,omitempty"`      // hash of the line Through
}

const (
	mostName   = 128  // bytes of a name
	mostTokens = 1000 // of one line; more make another
	mostTypes  = 64
)

var (
	word      = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
	typeName  = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,31}$`)
	tokenForm = regexp.MustCompile(`^\[[A-Z][A-Z0-9_]{1,31}_[0-9a-hjkmnp-tv-z]{16,64}\]$`)
)

// check refuses what could be a value. It quotes nothing but words of ours.
func (l *Line) check() error {
	if !slices.Contains(kinds, l.Kind) || l.Lost != 0 || l.Through != 0 || l.At != "" {
		return fault.New(fault.Invalid, "%.40q is no kind of line for the audit log", string(l.Kind))
	}
	for _, w := range []string{l.Decision, l.Outcome, l.By} {
		if w != "" && !word.MatchString(w) {
			return fault.New(fault.Invalid, "a decision or outcome of the audit log is one word in lower case")
		}
	}
	if len(l.Types) > mostTypes {
		return fault.New(fault.Invalid, "a line of the audit log has at most %d types, not %d", mostTypes, len(l.Types))
	}
	for t := range l.Types {
		if !typeName.MatchString(t) {
			return fault.New(fault.Invalid, "a type in the audit log is a name in capitals, such as EMAIL")
		}
	}
	for _, t := range l.Tokens {
		if !tokenForm.MatchString(t) {
			return fault.New(fault.Invalid, "what the audit log was given as a token is none")
		}
	}
	for _, name := range []*string{&l.Session, &l.Execution, &l.Server, &l.Tool, &l.Destination, &l.Rule, &l.Approval, &l.Section} {
		*name = shorten(*name)
	}
	return nil
}

func shorten(name string) string {
	if len(name) <= mostName {
		return name
	}
	n := mostName
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

// split makes several of a line with very many tokens: a line has a largest size.
func (l Line) split() []Line {
	if len(l.Tokens) <= mostTokens {
		return []Line{l}
	}
	var all []Line
	for some := range slices.Chunk(l.Tokens, mostTokens) {
		part := l
		part.Tokens = some
		if len(all) > 0 {
			part.Types, part.Duration = nil, 0
		}
		all = append(all, part)
	}
	return all
}

// Record is a line as it is in the log.
type Record struct {
	Seq  int64     `json:"seq"`  // from 1, without gaps
	Time time.Time `json:"time"` // when it came to the log
	Line
	Prev string `json:"prev"`           // hash of the line before; that of the first is 64 zeros
	Hash string `json:"hash,omitempty"` // of this line up to here
}
