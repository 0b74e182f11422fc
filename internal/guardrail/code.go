package guardrail

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// Code judges code that is to run and the variables that it gets.
func (g *Guard) Code(code string, vars json.RawMessage) (found []Finding) {
	if g == nil || g.cfg.Unchecked {
		return nil
	}
	found = append(found, g.size("code", len(code), g.cfg.MaxCode)...)
	found = append(found, g.size("context_vars", len(vars), g.cfg.MaxVars)...)
	if len(found) > 0 {
		return found // what is too large is not worth reading
	}
	for _, r := range g.patterns {
		found = append(found, matches(r, code, CheckPatterns, "matches the pattern %#q that the operator blocks", "do it in another way, or ask the operator")...)
	}
	for _, r := range g.paths {
		found = append(found, matches(r, code, CheckPaths, "names %q, a path that the operator blocks", "use files in /workspace")...)
	}
	found = append(found, g.values(code, func(at int) string { return place(code, at) })...)
	if g.cfg.Strict && g.cfg.Scanner != nil {
		found = append(found, g.values(string(vars), func(int) string { return "context_vars" })...)
	}
	return found
}

func (g *Guard) size(what string, n, most int) []Finding {
	if most == 0 || n <= most {
		return nil
	}
	return []Finding{{CheckSize, Refuse, what, fmt.Sprintf("has %d bytes; the operator allows %d", n, most), "write data to a workspace file and read it from the code"}}
}

func matches(r rule, text, check, what, do string) (found []Finding) {
	for _, at := range r.re.FindAllStringSubmatchIndex(text, mostFindings) {
		start := at[0]
		if check == CheckPaths {
			start = at[2]
		}
		found = append(found, Finding{check, Refuse, place(text, start), fmt.Sprintf(what, short(r.written)), do})
	}
	return found
}

func short(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// secrets are the types that are no person's data and grant something.
var secrets = []detect.Type{detect.APIKey, detect.JWT, detect.PrivateKey, detect.URLCredentials}

// values finds what should not be written out: secrets, and in strict mode
// personal data.
func (g *Guard) values(text string, where func(at int) string) (found []Finding) {
	if g.cfg.Scanner == nil {
		return nil
	}
	for _, f := range g.cfg.Scanner.Scan(text) {
		secret := slices.Contains(secrets, f.Type)
		switch {
		case len(found) == mostFindings:
			return found
		case secret:
			found = append(found, Finding{CheckSecrets, g.flagged(), where(f.Start), fmt.Sprintf("a secret is written out (%s)", f.Type),
				"leave credentials to the servers, which have their own, or ask the operator for a tool"})
		case g.cfg.Strict:
			found = append(found, Finding{CheckPersonal, Refuse, where(f.Start), fmt.Sprintf("personal data is written out (%s)", f.Type),
				"use the token that it was shown as, or read it from a file or a tool"})
		}
	}
	return found
}

func (g *Guard) flagged() Verdict {
	if g.cfg.Strict {
		return Refuse
	}
	return Flag
}

// Args judges the arguments of a call, an object.
func (g *Guard) Args(args json.RawMessage) (found []Finding) {
	if g == nil || g.cfg.Unchecked || len(g.patterns)+len(g.paths) == 0 {
		return nil
	}
	var members map[string]any
	if json.Unmarshal(args, &members) != nil {
		return nil // it was checked before to be one
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		each(members[name], func(s string) {
			if len(found) < mostFindings {
				found = append(found, g.argument(name, s)...)
			}
		})
	}
	return found
}

// each calls f with the texts in a value of JSON.
func each(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			each(e, f)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			f(k)
			each(v[k], f)
		}
	}
}

func (g *Guard) argument(name, text string) (found []Finding) {
	where := fmt.Sprintf("argument %.60q", name)
	if r := matching(g.patterns, text); r != nil {
		found = append(found, Finding{CheckPatterns, Refuse, where, fmt.Sprintf("matches the pattern %#q that the operator blocks", short(r.written)), "ask the operator"})
	}
	r := matching(g.paths, text)
	if r == nil && len(text) < 4096 { // a/../b is b
		r = matching(g.paths, path.Clean(backslash.ReplaceAllString(text, "/")))
	}
	if r != nil {
		found = append(found, Finding{CheckPaths, Refuse, where, fmt.Sprintf("names %q, a path that the operator blocks", short(r.written)), "ask the operator"})
	}
	return found
}

var backslash = regexp.MustCompile(`\\+`)

func matching(rules []rule, text string) *rule {
	for i := range rules {
		if rules[i].re.MatchString(text) {
			return &rules[i]
		}
	}
	return nil
}
