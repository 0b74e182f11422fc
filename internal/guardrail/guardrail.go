// Package guardrail checks text and code: code that a model submits, arguments that it
// passes to tools, and answers of servers. It also runs the operator's hooks.
//
// Terms: a check detects one kind of problem; a Finding is a detected problem and its position;
// a Verdict is Flag (reported, the operation proceeds) or Refuse (the operation is
// refused). An Injection is text that reads like instructions to a model. A Filter
// rewrites text so that it is safe to show: it puts injections between delimiters that
// label them as data, and neutralizes what a client would load or a terminal would
// interpret. A hook is a decision maker of the operator, often a program.
//
// A nil *Guard checks nothing. A nil *Filter only removes characters that reorder or
// hide text. Both are safe for concurrent use. No Finding contains a value: a secret
// is reported by type and position. Only hooks start processes.
//
// The package does not isolate code: the checks read source text, and code can express
// the same thing in other ways. It evaluates no policy and asks for no approval.
package guardrail

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Verdict is the consequence of a finding.
type Verdict string

// Verdicts. Text that passes has no finding.
const (
	Flag   Verdict = "flag"
	Refuse Verdict = "refuse"
)

// Names of checks in findings and the audit log.
const (
	CheckPatterns  = "blocked_patterns"
	CheckPaths     = "blocked_paths"
	CheckSize      = "size"
	CheckSecrets   = "secrets"
	CheckPersonal  = "pii_detection"
	CheckInjection = "injection"
	CheckRate      = "rate_limiting"
)

// Finding is the result of one check. None of its texts contains the value that was
// found.
type Finding struct {
	Check    string
	Verdict  Verdict
	Location string // "line 3, column 5", "context_vars", "argument path"; "": the whole text
	Message  string
	Remedy   string // what to do instead; "": nothing
}

func (f Finding) String() string {
	s := f.Message
	if f.Location != "" {
		s = f.Location + ": " + s
	}
	return f.Check + ": " + s
}

// Refusals returns the findings with verdict Refuse.
func Refusals(all []Finding) (some []Finding) {
	for _, f := range all {
		if f.Verdict == Refuse {
			some = append(some, f)
		}
	}
	return some
}

// maxFindings limits the findings of one check.
const maxFindings = 5

// Config of a Guard. Its zero value runs the checks that need no configuration.
type Config struct {
	Strict     bool            `key:"strict_mode" project:"enable"` // refuse secrets in code, and personal data in code and variables
	SkipInput  bool            // do not check code and arguments; hooks and the rate limit still apply
	SkipOutput bool            // do not look for injections in answers of servers
	Scanner    *detect.Scanner // detects secrets and personal data; nil: neither is checked
	Patterns   []string        // regular expressions in RE2 syntax that code and arguments must not match
	Paths      []string        // paths that code and arguments must not name; * matches part of a name
	MaxCode    int             `key:"max_code_bytes" range:"1 1073741824" project:"lower"` // bytes of code; 0: unlimited here
	MaxVars    int             `key:"max_vars_bytes" range:"1 1073741824" project:"lower"` // bytes of variables; 0: unlimited here
	PerMinute  int             // executions of one tenant; 0: unlimited
	Checks     []Check         // of the operator, in this order
	Hooks      []HookConfig    // run in this order
}

// Guard runs checks and hooks.
type Guard struct {
	cfg      Config
	patterns []rule
	paths    []rule
	hooks    []namedHook
	rate     *rate
}

// rule is a compiled regular expression and its source in the configuration.
type rule struct {
	source string
	re     *regexp.Regexp
}

const (
	maxRules = 100
	maxExpr  = 1000
)

// New validates cfg and returns a Guard.
func New(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg, rate: &rate{}}
	if len(cfg.Patterns) > maxRules || len(cfg.Paths) > maxRules {
		return nil, fault.New(fault.Invalid, "guardrails has %d patterns and %d paths: the maximum is %d of each", len(cfg.Patterns),
			len(cfg.Paths), maxRules).
			WithHint("combine patterns with |")
	}
	for i, p := range cfg.Patterns {
		re, err := compile(p)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "guardrails.blocked_patterns: entry %d, %.200q, %s", i+1, p, fault.Message(err)).
				WithHint("use RE2 syntax, which has no look-around and no back-references; the pattern must not match the empty text")
		}
		g.patterns = append(g.patterns, rule{p, re})
	}
	for i, p := range cfg.Paths {
		re, err := compilePath(p)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "guardrails.blocked_paths: entry %d, %.200q, %s", i+1, p, fault.Message(err)).
				WithHint("use a path or part of a path, such as /etc, .ssh or *.pem")
		}
		g.paths = append(g.paths, rule{p, re})
	}
	for _, c := range cfg.Checks {
		if !checkName.MatchString(c.Name) || c.Run == nil {
			return nil, fault.New(fault.Invalid, "guardrail %.80q has no function, or its name is not allowed", c.Name).
				WithHint("use 1 to 40 letters, digits, - and _")
		}
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

var checkName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

func compile(expr string) (*regexp.Regexp, error) {
	if expr == "" || len(expr) > maxExpr {
		return nil, fault.New(fault.Invalid, "has %d bytes: the length must be 1 to %d", len(expr), maxExpr)
	}
	re, err := regexp.Compile(expr)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "is not a regular expression")
	case re.MatchString(""):
		return nil, fault.New(fault.Invalid, "matches the empty text and therefore every text")
	}
	return re, nil
}

// compilePath returns a regular expression that matches a path and everything below
// it.
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
	b.WriteString("(") // the reported part
	for i, part := range strings.Split(strings.TrimLeft(path, "*"), "*") {
		if i > 0 {
			b.WriteString(`[^/\s"'\\]*`)
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(part), "/", `[/\\]+(?:\.[/\\]+)*`))
	}
	b.WriteString(`)(?:$|[^A-Za-z0-9_.~-])`)
	return regexp.Compile(b.String())
}

// position returns the line and column of a byte in source, counted as editors do.
func position(source string, at int) string {
	before := source[:at]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}
