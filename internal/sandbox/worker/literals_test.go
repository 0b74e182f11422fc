//go:build linux

package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// restored is a verdict on source.
type restored struct {
	Source  *string
	Line    int
	Message string
	Token   bool
}

// verdict returns the verdict of literals on source; nil if none.
func (w *pyWorker) verdict(t testing.TB, source string, tokens map[string]string) *restored {
	t.Helper()
	const code = "from sandpiper import literals\nresult = literals.verdict(source, tokens)"
	o := w.program(t, sandbox.Program{Code: code, Vars: variables(t, map[string]any{"source": source, "tokens": tokens})}, newHost())
	if o.Status != sandbox.Completed {
		t.Fatalf("%s\n%+v", source, o)
	}
	var v *restored
	if err := json.Unmarshal(o.Result, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerdictReplacesTokens(t *testing.T) {
	w := open(t, worker.Limits{})
	for _, row := range []struct{ value, source, want string }{
		{"ada", "x = 'TOKEN'", "x = 'ada'"},
		{"O'Brien", "x = 'TOKEN', \"TOKEN\", '''TOKEN'''", `x = 'O\'Brien', "O'Brien", '''O\'Brien'''`},
		{`C:\new`, "x = 'TOKEN', r'TOKEN', b'TOKEN', rb'TOKEN'", `x = 'C:\\new', r'C:\new', b'C:\\new', rb'C:\new'`},
		{"ü{}", "x = f'TOKEN{y}TOKEN', b'TOKEN', 'TOKEN'", `x = f'ü{{}}{y}ü{{}}', b'\xc3\xbc{}', 'ü{}'`},
		{"a\nb\x00", "x = '''TOKEN''' # TOKEN TOKEN\n", "x = '''a\\nb\\x00''' # a b  a b \n"},
		{"a\nb", "x = r'''TOKEN'''", "x = r'''a\nb'''"},
		{"n", `x = '\TOKEN', '\\TOKEN', f'\{y}\TOKEN', r'\TOKEN'`, `x = '\\n', '\\n', f'\{y}\\n', r'\n'`},
		{"a\"'", "def f():\n    '''TOKEN'''\n    # TOKEN\n    return f\"{d['TOKEN']!r:>9}{1:TOKEN}\"",
			"def f():\n    '''a\"\\''''\n    # a\"'\n    return f\"{d['a\"\\'']!r:>9}{1:a\\\"'}\""},
		{"v", "EMAIL_k7q2m9x4d3w8n5rt = 5\r\nx = TOKEN\ry = 'TOKEN'\r\n", "EMAIL_k7q2m9x4d3w8n5rt = 5\nx = TOKEN\ny = 'v'\n"},
		{mail + "'", "x = 'TOKENTOKEN'", "x = '" + mail + `\'` + mail + `\''`},
		{"x", "a = '''\n👩‍🚀TOKEN\n\\\nTOKEN''' f'''{{é\n{1}TOKEN''' + t'{{TOKEN'", "a = '''\n👩‍🚀x\n\\\nx''' f'''{{é\n{1}x''' + t'{{x'"},
		{"\u200d\u2028", "x = 'TOKEN' # TOKEN", `x = '\u200d\u2028' #   `},
		{"x", "'''TOKEN\f'''\f\nTOKEN\n\f\nif 1:\n\t'TOKEN'", "'''x\f'''\f\nTOKEN\n\f\nif 1:\n\t'x'"},
	} {
		v := w.verdict(t, strings.ReplaceAll(row.source, "TOKEN", mail), map[string]string{mail: row.value})
		want := strings.ReplaceAll(row.want, "TOKEN", mail)
		if v == nil || v.Source == nil || *v.Source != want {
			t.Errorf("%s with %q\n gave %+v\n want %s", row.source, row.value, v, want)
			if v != nil && v.Source != nil {
				t.Logf("%q", *v.Source)
			}
		}
	}
}

func TestVerdictKeepsSourceWithoutTokens(t *testing.T) {
	w := open(t, worker.Limits{})
	for _, source := range []string{"x = 1\r\n", "x = '[EMAIL_k7q2m9x4d3w8n5ru]' # [EMAIL]", "[EMAIL_k7q2m9x4d3w8n5rt]", "\f", "#"} {
		for _, tokens := range []map[string]string{nil, {}, {mail: "a"}, {"": "a"}} {
			if v := w.verdict(t, source, tokens); v != nil {
				t.Errorf("%q gave %+v", source, v)
			}
		}
	}
}

func TestVerdictReportsUnwritableToken(t *testing.T) {
	w := open(t, worker.Limits{})
	for _, row := range []struct {
		value, source string
		line          int
	}{
		{"a'b", "\nx = r'TOKEN'", 2},
		{"a\nb", "x = r'TOKEN'", 1},
		{"a\rb", "x = r'''TOKEN'''", 1},
		{"a\x00", "x = '''\n''' + r'''TOKEN'''", 2},
		{`a\`, "x = r'TOKEN'", 1},
		{"é", "x = rb'TOKEN'", 1},
		{"a'''b", "x = 1\nx = rf'''\n{x}TOKEN'''", 3},
		{"''", "\nx = r''''TOKEN'''", 2},
		{"' + x + '", "x = r'TOKEN'", 1},
		{"v", "x = 1\nx = ('[EMAIL_'\n  'k7q2m9x4d3w8n5rt]')", 2},
		{"v", "x = 1\nx = '\\x5bEMAIL_k7q2m9x4d3w8n5rt]'\ny = 'TOKEN'", 2},
		{"v", "x = 1\nx = '[EMAIL_\\\nk7q2m9x4d3w8n5rt]', 'TOKEN'", 2},
		{"{}", "x = 1\nx = f'{x:TOKEN}'", 2},
		{"a\"", "x = f'{\"TOKEN\"=}'\n'TOKEN'", 1},
	} {
		v := w.verdict(t, strings.ReplaceAll(row.source, "TOKEN", mail), map[string]string{mail: row.value})
		if v == nil || !v.Token || v.Line != row.line || v.Source != nil {
			t.Errorf("%s with %q gave %+v", row.source, row.value, v)
		}
	}
}

func TestVerdictReportsSyntaxError(t *testing.T) {
	w := open(t, worker.Limits{})
	for source, want := range map[string]restored{
		"x = 1\nx = (":           {Line: 2, Message: "'(' was never closed"},
		"x = 1\nreturn 'TOKEN'":  {Line: 2, Message: "'return' outside function"},
		"x = 'TOKEN":             {Line: 1, Message: "unterminated string literal (detected at line 1)"},
		"x = 1\n\n  y = 'TOKEN'": {Line: 3, Message: "unexpected indent"},
		"x = '\x00TOKEN'":        {Message: "source code string cannot contain null bytes"},
		strings.Repeat("(", 900) + "'TOKEN'" + strings.Repeat(")", 900): {Line: 1, Message: "too many nested parentheses"},
	} {
		for _, tokens := range []map[string]string{nil, {mail: "a"}} {
			v := w.verdict(t, strings.ReplaceAll(source, "TOKEN", mail), tokens)
			if v == nil || *v != want {
				t.Errorf("%.40s gave %+v", source, v)
			}
		}
	}
}
