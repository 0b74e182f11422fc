package guardrail_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func newGuard(t *testing.T, cfg guardrail.Config) *guardrail.Guard {
	t.Helper()
	if cfg.Scanner == nil {
		s, err := detect.New(detect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Scanner = s
	}
	g, err := guardrail.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// aKey has the form of a credential but is not one.
const aKey = "ghp_" + "a8Kd93jfLs02mQx7Zt51Rv64Yb87Nc30Wd12"

func findingTexts(found []guardrail.Finding) (all []string) {
	for _, f := range found {
		all = append(all, string(f.Verdict)+" "+f.String())
	}
	return all
}

func TestCheckCode(t *testing.T) {
	for name, c := range map[string]struct {
		cfg        guardrail.Config
		code, vars string
		want       []string
	}{
		"an ordinary program": {code: "import json\nrows = json.loads(read_file('orders.json'))\nresult = sum(r['amount'] for r in " +
			"rows)\n"},
		"a blocked pattern": {cfg: guardrail.Config{Patterns: []string{`\bos\.system\b`}}, code: "import os\nx = 1; os.system('ls')",
			want: []string{"refuse blocked_patterns: line 2, column 8: matches the blocked pattern `\\bos\\.system\\b`"}},
		"a blocked path": {cfg: guardrail.Config{Paths: []string{"/etc/"}},
			code: "open('/etc/passwd'); open('/etcetera'); open('/home/etc')",
			want: []string{`refuse blocked_paths: line 1, column 7: names the blocked path "/etc/"`}},
		"a blocked kind of file": {cfg: guardrail.Config{Paths: []string{"*.pem", ".ssh"}},
			code: "open('a/key.pem')\nopen('/root/.ssh/id')",
			want: []string{`refuse blocked_paths: line 1, column 12: names the blocked path "*.pem"`,
				`refuse blocked_paths: line 2, column 13: names the blocked path ".ssh"`}},
		"a secret": {code: "é = 1\nkey = '" + aKey + "'", want: []string{"flag secrets: line 2, column 8: contains a literal secret " +
			"(API_KEY)"}},
		"a secret, strictly": {cfg: guardrail.Config{Strict: true}, code: "key = '" + aKey + "'",
			want: []string{"refuse secrets: line 1, column 8: contains a literal secret (API_KEY)"}},
		"a mail address": {code: "to = 'ada@example.com'", vars: `{"to":"ada@example.com"}`},
		"a mail address, strictly": {cfg: guardrail.Config{Strict: true}, code: "to = 'ada@example.com'", vars: `{"to":"ada@example.com"}`,
			want: []string{"refuse pii_detection: line 1, column 7: contains literal personal data (EMAIL)",
				"refuse pii_detection: context_vars: contains literal personal data (EMAIL)"}},
		"too much code": {cfg: guardrail.Config{MaxCode: 10, Patterns: []string{"x+"}}, code: "xxxxxxxxxxx",
			want: []string{"refuse size: code: has 11 bytes; the limit is 10"}},
		"too many variables": {cfg: guardrail.Config{MaxVars: 10}, code: "1", vars: `{"a":"bcdefgh"}`,
			want: []string{"refuse size: context_vars: has 15 bytes; the limit is 10"}},
		"unchecked": {cfg: guardrail.Config{SkipInput: true, Patterns: []string{"x"}}, code: "x = '" + aKey + "'"},
	} {
		g := newGuard(t, c.cfg)
		if d := cmp.Diff(c.want, findingTexts(g.CheckCode(t.Context(), c.code, json.RawMessage(c.vars)))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestFindingsOmitSecrets(t *testing.T) {
	g := newGuard(t, guardrail.Config{Strict: true})
	for _, f := range g.CheckCode(t.Context(), "key = '"+aKey+"'; to = 'ada@example.com'", nil) {
		if s := f.String() + f.Remedy; strings.Contains(s, "ghp_") || strings.Contains(s, "ada@") {
			t.Error(s)
		}
	}
}

func TestCheckArgs(t *testing.T) {
	g := newGuard(t, guardrail.Config{Patterns: []string{`(?i)drop\s+table`}, Paths: []string{"/etc", ".ssh"}})
	for args, want := range map[string][]string{
		`{"path":"/home/x","query":"select 1"}`:    nil,
		`{"path":"/etc/passwd"}`:                   {`refuse blocked_paths: argument "path": names the blocked path "/etc"`},
		`{"path":"/home/../etc/passwd"}`:           {`refuse blocked_paths: argument "path": names the blocked path "/etc"`},
		`{"deep":[{"a":["x","C:\\u\\.ssh\\id"]}]}`: {`refuse blocked_paths: argument "deep": names the blocked path ".ssh"`},
		`{"q":"DROP  TABLE x"}`: {"refuse blocked_patterns: argument \"q\": matches the blocked pattern " +
			"`(?i)drop\\s+table`"},
		`{"m":{"drop table":1}}`: {"refuse blocked_patterns: argument \"m\": matches the blocked pattern `(?i)drop\\s+table`"},
		``:                       nil,
	} {
		if d := cmp.Diff(want, findingTexts(g.CheckArgs(t.Context(), json.RawMessage(args)))); d != "" {
			t.Errorf("%s: %s", args, d)
		}
	}
}

func TestNilGuard(t *testing.T) {
	var g *guardrail.Guard
	if g.CheckCode(t.Context(), "x", nil) != nil || g.CheckArgs(t.Context(), json.RawMessage(`{}`)) != nil ||
		g.Admit(tenant.Local) != nil || g.HasHook(guardrail.BeforeCode) {
		t.Error("a nil guard found something")
	}
	if j := g.RunHooks(t.Context(), guardrail.Event{}); j.Action != guardrail.Allow {
		t.Error(j)
	}
	var f *guardrail.Filter
	if s := f.Apply("x", "![a](http://x)"); s != "![a](http://x)" {
		t.Error(s)
	}
}

func TestAdmitIsPerTenant(t *testing.T) {
	g := newGuard(t, guardrail.Config{PerMinute: 2})
	other, err := tenant.Parse("other")
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []tenant.ID{tenant.Local, tenant.Local, other} {
		if f := g.Admit(id); f != nil {
			t.Errorf("%d: %v", i, f)
		}
	}
	f := g.Admit(tenant.Local)
	if len(f) != 1 || f[0].Check != guardrail.CheckRate || f[0].Verdict != guardrail.Refuse || !strings.Contains(f[0].Remedy,
		"try again in") {
		t.Errorf("%v", f)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for name, cfg := range map[string]guardrail.Config{
		"no expression":    {Patterns: []string{"ok", "("}},
		"matches all":      {Patterns: []string{"x*"}},
		"empty":            {Patterns: []string{""}},
		"no path":          {Paths: []string{"/"}},
		"any path":         {Paths: []string{"*"}},
		"no moment":        {Hooks: []guardrail.HookConfig{{On: "later", Command: []string{"true"}}}},
		"no command":       {Hooks: []guardrail.HookConfig{{On: guardrail.BeforeCode}}},
		"a tool of code":   {Hooks: []guardrail.HookConfig{{On: guardrail.BeforeCode, Tool: "a.*", Command: []string{"true"}}}},
		"no pattern":       {Hooks: []guardrail.HookConfig{{On: guardrail.BeforeCall, Tool: "a.[", Command: []string{"true"}}}},
		"very long":        {Hooks: []guardrail.HookConfig{{On: guardrail.BeforeCall, Command: []string{"true"}, Timeout: 1 << 40}}},
		"too many of them": {Patterns: make([]string, 101)},
	} {
		if _, err := guardrail.New(cfg); fault.KindOf(err) != fault.Invalid || fault.Message(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLaterGuardKeepsCounts(t *testing.T) {
	var g *guardrail.Guard
	for i, c := range []struct{ perMinute, admitted int }{{3, 3}, {2, 0}, {5, 2}, {1, 0}} {
		next, err := guardrail.New(guardrail.Config{PerMinute: c.perMinute})
		if err != nil {
			t.Fatal(err)
		}
		next.KeepCounts(g)
		g = next
		n := 0
		for range 10 {
			if len(g.Admit(tenant.Local)) == 0 {
				n++
			}
		}
		if n != c.admitted {
			t.Errorf("guard %d admits %d executions, want %d", i+1, n, c.admitted)
		}
	}
}

func TestChecksOfOperator(t *testing.T) {
	run := func(_ context.Context, text string) (guardrail.Verdict, string, error) {
		switch {
		case strings.Contains(text, "drop"):
			return guardrail.Refuse, "drops\na table", nil
		case strings.Contains(text, "old"):
			return guardrail.Flag, "is old", nil
		case strings.Contains(text, "broken"):
			return "", "", errors.New("secret cause")
		case strings.Contains(text, "odd"):
			return "odd", "", nil
		}
		return "", "", nil
	}
	g, err := guardrail.New(guardrail.Config{Checks: []guardrail.Check{{Name: "tables", Run: run}}})
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string][]string{
		"x = 1":  nil,
		"drop":   {"refuse tables: drops a table"},
		"old":    {"flag tables: is old"},
		"broken": {"refuse tables: the check failed: something went wrong inside Sandpiper; its log says what"},
		"odd":    {`refuse tables: the check returned the verdict "odd"`},
	} {
		var got []string
		for _, f := range g.CheckCode(t.Context(), code, nil) {
			got = append(got, string(f.Verdict)+" "+f.String())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", code, d)
		}
	}
	if got := g.CheckArgs(t.Context(), json.RawMessage(`{"rows": [{"sql": "drop it"}]}`)); len(got) != 1 ||
		got[0].Location != `argument "rows"` {
		t.Errorf("arguments: %v", got)
	}
}

func TestNewRejectsChecks(t *testing.T) {
	run := func(context.Context, string) (guardrail.Verdict, string, error) { return "", "", nil }
	for _, c := range []guardrail.Check{{Run: run}, {Name: "two words", Run: run}, {Name: "tables"},
		{Name: strings.Repeat("a", 41), Run: run}} {
		if _, err := guardrail.New(guardrail.Config{Checks: []guardrail.Check{c}}); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
