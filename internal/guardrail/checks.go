package guardrail

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/command"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Check is a check of the operator, for code and for texts in arguments.
type Check struct {
	Name string // in findings
	// Run returns Refuse or Flag with a message that does not contain the text, or "". An error
	// refuses the text.
	Run func(ctx context.Context, text string) (verdict Verdict, message string, err error)
}

func (c Check) check(ctx context.Context, text, where string) []Finding {
	verdict, message, err := c.Run(ctx, text)
	switch {
	case err != nil:
		return []Finding{{c.Name, Refuse, where, "the check failed: " + fault.Message(err), "ask the operator"}}
	case verdict == "":
		return nil
	case verdict != Refuse && verdict != Flag:
		return []Finding{{c.Name, Refuse, where, fmt.Sprintf("the check returned the verdict %.40q", verdict), "ask the operator"}}
	}
	return []Finding{{c.Name, verdict, where, command.OneLine(message, maxReason), ""}}
}

// CheckCode checks code and its variables.
func (g *Guard) CheckCode(ctx context.Context, code string, vars json.RawMessage) (found []Finding) {
	if g == nil || g.cfg.SkipInput {
		return nil
	}
	found = append(found, g.checkSize("code", len(code), g.cfg.MaxCode)...)
	found = append(found, g.checkSize("context_vars", len(vars), g.cfg.MaxVars)...)
	if len(found) > 0 {
		return found // too large to scan
	}
	for _, r := range g.patterns {
		found = append(found, findMatches(r, code, CheckPatterns, "matches the blocked pattern %#q",
			"use another approach or ask the operator")...)
	}
	for _, r := range g.paths {
		found = append(found, findMatches(r, code, CheckPaths, "names the blocked path %q", "use files in /workspace")...)
	}
	found = append(found, g.checkValues(code, func(at int) string { return position(code, at) })...)
	if g.cfg.Strict && g.cfg.Scanner != nil {
		found = append(found, g.checkValues(string(vars), func(int) string { return "context_vars" })...)
	}
	for _, c := range g.cfg.Checks {
		found = append(found, c.check(ctx, code, "")...)
	}
	return found
}

func (g *Guard) checkSize(what string, n, most int) []Finding {
	if most == 0 || n <= most {
		return nil
	}
	return []Finding{{CheckSize, Refuse, what, fmt.Sprintf("has %d bytes; the limit is %d", n, most),
		"write data to a workspace file and read it in code"}}
}

func findMatches(r rule, text, check, what, do string) (found []Finding) {
	for _, at := range r.re.FindAllStringSubmatchIndex(text, maxFindings) {
		start := at[0]
		if check == CheckPaths {
			start = at[2]
		}
		found = append(found, Finding{check, Refuse, position(text, start), fmt.Sprintf(what, shorten(r.source)), do})
	}
	return found
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// secrets are the types that grant access.
var secrets = []detect.Type{detect.APIKey, detect.JWT, detect.PrivateKey, detect.URLCredentials}

// checkValues finds literal secrets and, in strict mode, personal data.
func (g *Guard) checkValues(text string, where func(at int) string) (found []Finding) {
	if g.cfg.Scanner == nil {
		return nil
	}
	for _, f := range g.cfg.Scanner.Scan(text) {
		secret := slices.Contains(secrets, f.Type)
		switch {
		case len(found) == maxFindings:
			return found
		case secret:
			found = append(found, Finding{CheckSecrets, g.secretVerdict(), where(f.Start),
				fmt.Sprintf("contains a literal secret (%s)", f.Type),
				"servers have their own credentials; call a tool instead, or ask the operator for one"})
		case g.cfg.Strict:
			found = append(found, Finding{CheckPersonal, Refuse, where(f.Start), fmt.Sprintf("contains literal personal data (%s)", f.Type),
				"use its token, or read it from a file or a tool"})
		}
	}
	return found
}

func (g *Guard) secretVerdict() Verdict {
	if g.cfg.Strict {
		return Refuse
	}
	return Flag
}

// CheckArgs checks the arguments of a call, a JSON object.
func (g *Guard) CheckArgs(ctx context.Context, args json.RawMessage) (found []Finding) {
	if g == nil || g.cfg.SkipInput || len(g.patterns)+len(g.paths)+len(g.cfg.Checks) == 0 {
		return nil
	}
	var members map[string]any
	if json.Unmarshal(args, &members) != nil {
		return nil // validated by the caller
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		eachText(members[name], func(s string) {
			if len(found) < maxFindings {
				found = append(found, g.checkArgument(ctx, name, s)...)
			}
		})
	}
	return found
}

// eachText calls f with the strings and keys in a JSON value.
func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachText(e, f)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			f(k)
			eachText(v[k], f)
		}
	}
}

func (g *Guard) checkArgument(ctx context.Context, name, text string) (found []Finding) {
	where := fmt.Sprintf("argument %.60q", name)
	if r := firstMatch(g.patterns, text); r != nil {
		found = append(found, Finding{CheckPatterns, Refuse, where, fmt.Sprintf("matches the blocked pattern %#q", shorten(r.source)),
			"ask the operator"})
	}
	r := firstMatch(g.paths, text)
	if r == nil && len(text) < 4096 { // resolve a/../b to b
		r = firstMatch(g.paths, path.Clean(backslash.ReplaceAllString(text, "/")))
	}
	if r != nil {
		found = append(found, Finding{CheckPaths, Refuse, where, fmt.Sprintf("names the blocked path %q", shorten(r.source)),
			"ask the operator"})
	}
	for _, c := range g.cfg.Checks {
		found = append(found, c.check(ctx, text, where)...)
	}
	return found
}

var backslash = regexp.MustCompile(`\\+`)

func firstMatch(rules []rule, text string) *rule {
	for i := range rules {
		if rules[i].re.MatchString(text) {
			return &rules[i]
		}
	}
	return nil
}
