// Package guardrail judges text and code: what a model sent to be run, what it
// passes to tools, and what servers answer. It also asks the operator's hooks.
//
// The words: a check looks for one thing; a Finding is what it found and where; a
// Verdict is Flag (it is told and goes on) or Refuse (it does not happen). Marks
// are what in a text reads like instructions to a model. A Filter writes text so
// that it can be shown to one: what reads like instructions stands between marks
// of ours, and what a client would load or a terminal obey is taken apart. A hook
// is the operator's own judge, often a program.
//
// A nil *Guard and a nil *Filter judge nothing and change nothing. Both are safe
// for concurrent use. No Finding holds a value: a secret is named by its type and
// place. Only hooks start processes.
//
// The package isolates nothing: the checks read what is written, and code can
// write anything in another way. It knows no policy and asks no person.
package guardrail

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Verdict is what comes of a finding.
type Verdict string

// The verdicts beside passing, which is no finding.
const (
	Flag   Verdict = "flag"
	Refuse Verdict = "refuse"
)

// The checks, as findings and the audit log name them.
const (
	CheckPatterns  = "blocked_patterns"
	CheckPaths     = "blocked_paths"
	CheckSize      = "size"
	CheckSecrets   = "secrets"
	CheckPersonal  = "pii_detection"
	CheckInjection = "injection"
	CheckRate      = "rate_limiting"
	CheckHook      = "hook"
)

// Finding is what one check found. None of its texts holds a value that it found.
type Finding struct {
	Check    string
	Verdict  Verdict
	Location string // "line 3, column 5", "context_vars", "argument path"; "" for all of it
	Message  string
	Remedy   string // what to do about it; "" if there is nothing
}

func (f Finding) String() string {
	s := f.Message
	if f.Location != "" {
		s = f.Location + ": " + s
	}
	return f.Check + ": " + s
}

// Refused returns the findings that refuse.
func Refusals(all []Finding) (some []Finding) {
	for _, f := range all {
		if f.Verdict == Refuse {
			some = append(some, f)
		}
	}
	return some
}

// mostFindings of one check are said.
const maxFindings = 5

// Config of a Guard. Its zero value checks what is always worth saying.
type Config struct {
	Strict     bool            // secrets in code are refused, and so is personal data in code and variables
	SkipInput  bool            // code and arguments are not judged; hooks and the rate are
	SkipOutput bool            // what servers say is not looked at
	Scanner    *detect.Scanner // finds secrets and personal data; nil looks for none
	Patterns   []string        // regular expressions in RE2 syntax that code and arguments must not match
	Paths      []string        // paths that code and arguments must not name; * stands for part of a name
	MaxCode    int             // bytes of code; 0 means any that can be run
	MaxVars    int             // bytes of variables; likewise
	PerMinute  int             // executions of one tenant; 0 means any number
	Hooks      []HookConfig    // asked in this order
}

// Guard judges.
type Guard struct {
	cfg      Config
	patterns []rule
	paths    []rule
	hooks    []namedHook
	rate     rate
}

// rule is a regular expression and what the operator wrote.
type rule struct {
	source string
	re     *regexp.Regexp
}

const (
	maxRules = 100
	maxExpr  = 1000
)

// New checks cfg and returns a Guard.
func New(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg}
	if len(cfg.Patterns) > maxRules || len(cfg.Paths) > maxRules {
		return nil, fault.New(fault.Invalid, "guardrails have %d patterns and %d paths: at most %d of each are allowed", len(cfg.Patterns), len(cfg.Paths), maxRules).
			WithHint("join patterns with |")
	}
	for i, p := range cfg.Patterns {
		re, err := compile(p)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "guardrails.blocked_patterns: entry %d, %.200q, %s", i+1, p, fault.Message(err)).
				WithHint("the syntax is RE2's: no look-around and no back-references; every match has at least one character")
		}
		g.patterns = append(g.patterns, rule{p, re})
	}
	for i, p := range cfg.Paths {
		re, err := compilePath(p)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "guardrails.blocked_paths: entry %d, %.200q, %s", i+1, p, fault.Message(err)).
				WithHint("write a path or a part of one, such as /etc, .ssh or *.pem")
		}
		g.paths = append(g.paths, rule{p, re})
	}
	for i, h := range cfg.Hooks {
		one, err := h.compile(i + 1)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "guardrails.hooks: entry %d %s", i+1, fault.Message(err))
		}
		g.hooks = append(g.hooks, one)
	}
	return g, nil
}

func compile(expr string) (*regexp.Regexp, error) {
	if expr == "" || len(expr) > maxExpr {
		return nil, fault.New(fault.Invalid, "has %d bytes: between 1 and %d are allowed", len(expr), maxExpr)
	}
	re, err := regexp.Compile(expr)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "is no regular expression")
	case re.MatchString(""):
		return nil, fault.New(fault.Invalid, "matches the empty text, and so everything")
	}
	return re, nil
}

// compilePath makes a rule of a path: what it names, and what lies beneath.
func compilePath(path string) (*regexp.Regexp, error) {
	path = strings.TrimRight(path, "/")
	if strings.Trim(path, "*/. ") == "" || len(path) > maxExpr {
		return nil, fault.New(fault.Invalid, "names no path")
	}
	var b strings.Builder
	b.WriteString(`(?:^|[^A-Za-z0-9_.~-])`)
	if strings.HasPrefix(path, "*") {
		b.Reset()
	}
	b.WriteString("(") // what is told of
	for i, part := range strings.Split(strings.TrimLeft(path, "*"), "*") {
		if i > 0 {
			b.WriteString(`[^/\s"'\\]*`)
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(part), "/", `[/\\]+(?:\.[/\\]+)*`))
	}
	b.WriteString(`)(?:$|[^A-Za-z0-9_.~-])`)
	return regexp.Compile(b.String())
}

// place is where in source a byte stands, as editors count.
func position(source string, at int) string {
	before := source[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}
