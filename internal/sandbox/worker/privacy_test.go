//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

const (
	mail  = "[EMAIL_k7q2m9x4d3w8n5rt]"
	other = "[NAME_0123456789abcdef]"
)

// hostile are values that want to be more than a value, or less.
var hostile = map[string]string{
	"plain":            "ada@example.org",
	"empty":            "",
	"an apostrophe":    "O'Brien",
	"quotes":           `a"b'c`,
	"three quotes":     `x"""y'''z`,
	"a way out":        `'+__import__("os").getcwd()+'`,
	"a way out of f":   `{__import__('os').getcwd()}`,
	"braces":           "}{ {{x}} {0!r:>{w}}",
	"per cent":         "%s %(x)s %",
	"a backslash":      `\`,
	"backslashes":      `C:\new\x41\N{DIGIT ONE}\\`,
	"begins as escape": "nothing",
	"lines":            "-----BEGIN KEY-----\r\na\nb\rc\x85\u2028d\n",
	"a comment":        "# no",
	"NUL":              "a\x00b",
	"control":          "\x07\x1b[31m\x7f\f",
	"emoji":            "👩\u200d🚀 Zoë \u202eevil",
	"itself":           mail,
	"another token":    "x" + other + "y",
	"64 KB":            strings.Repeat(`é'\"`+"\n", 13_000),
}

// replaced are expressions that are true if TOKEN was replaced by v.
var replaced = []string{
	`'TOKEN' == v`,
	`"TOKEN" == v`,
	`'''TOKEN''' == v`,
	`"""a
TOKEN
""" == 'a\n' + v + '\n'`,
	`u'aTOKENb' == 'a' + v + 'b'`,
	`r'\TOKEN' == '\\' + v`,
	`'\\TOKEN\\' == '\\' + v + '\\'`,
	`'\ud800TOKEN' == '\ud800' + v`,
	`'TOKENTOKEN' == v + v`,
	`'TO' 'KEN' == v`,
	`'\x5b' 'TOKEN' == '[' + v`,
	`b'TOKEN' == v.encode()`,
	`br'\xTOKEN' == b'\\x' + v.encode()`,
	`b'\xffTOKEN\xc3' == b'\xff' + v.encode() + b'\xc3'`,
	`f'TOKEN' == v`,
	`f'{{TOKEN}}{1}TOKEN' == '{' + v + '}1' + v`,
	`f'{"TOKEN"}' == v`,
	`f'{"TOKEN"!r}' == repr(v)`,
	`rf'\TOKEN{1}' == '\\' + v + '1'`,
	`f'{date(2026, 1, 2):TOKEN}' == date(2026, 1, 2).__format__(v)`,
	`t'TOKEN{v}'.strings == (v, '')`,
	`list({'TOKEN': 1}) == [v]`,
	`{'TOKEN'} == {v}`,
	`dict(**{'TOKEN': 1}) == {v: 1}`,
	`(lambda x='TOKEN': x)() == v`,
	`{v: 1}['TOKEN'] == 1`,
	`('TOKEN' in [v]) is True`,
}

func (w *pyWorker) program(t testing.TB, p sandbox.Program, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	w.number++
	p.ID = "exec_test"
	o, err := w.Run(context.Background(), w.number, p, h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func variables(t testing.TB, vars map[string]any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(vars)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTokensInConstantsAreReplaced(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	for name, value := range hostile {
		vars := variables(t, map[string]any{"v": value})
		for _, code := range replaced {
			code = strings.ReplaceAll(strings.ReplaceAll(code, "TOKEN", mail), "'TO' 'KEN'", "'"+mail[:9]+"' '"+mail[9:]+"'")
			o := w.program(t, sandbox.Program{Code: code, Vars: vars, Tokens: map[string]string{mail: value, other: "not looked at"}}, h)
			if string(o.Result) != "true" {
				t.Errorf("%s: %s is %.200s %.200s", name, code, o.Result, o.Error)
			}
		}
	}
}

func TestTokensInStatementsAreReplaced(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	for code, want := range map[string]string{
		"match v:\n    case 'TOKEN': result = 1":                  "1",
		"match {v: 2}:\n    case {'TOKEN': x}: result = x":        "2",
		"match [v.encode()]:\n    case [b'TOKEN']: result = 3":    "3",
		"def f():\n    'TOKEN'\n[f.__doc__ == v]":                 "[true]",
		"'''TOKEN'''\n__doc__ == v":                               "true",
		"class C:\n    x: 'TOKEN' = 'TOKEN'\nC.x == v":            "true",
		"x = [NAME for NAME in ['TOKEN']]\nx == [v]":              "true",
		"EMAIL_k7q2m9x4d3w8n5rt = 5\nTOKEN":                       "[5]",
		"x = 'TOKEN' # TOKEN\nimport inspect\nx == v":             "true",
		"assert v == 'TOKEN', 'TOKEN'\n'TOKEN'.replace(v, 'TOK')": `"TOK"`,
	} {
		o := w.program(t, sandbox.Program{
			Code: strings.ReplaceAll(code, "TOKEN", mail), Vars: variables(t, map[string]any{"v": hostile["quotes"]}),
			Tokens: map[string]string{mail: hostile["quotes"]},
		}, h)
		if string(o.Result) != want {
			t.Errorf("%s\n gave %s (%s)\n want %s", code, o.Result, o.Error, want)
		}
	}
}

func TestLongestTokenIsReplacedOnce(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	tokens := map[string]string{"[A": "1", "[AB": "2", "[AB]": "3", "~[AB]": "4", "^]": "5", "": "6", "é": "[A"}
	for code, want := range map[string]string{
		"'[AB]'": `"3"`, "'[A]'": `"1]"`, "'[ABC'": `"2C"`, "'[[AB'": `"[2"`, "'~[AB]'": `"4"`, "'[A^]'": `"15"`,
		"'é]'": `"[A]"`, "''": `""`, "b'~[AB]'": `"4"`, "'AB]'": `"AB]"`,
	} {
		if o := w.program(t, sandbox.Program{Code: code, Tokens: tokens}, h); string(o.Result) != want {
			t.Errorf("%s is %s (%s), want %s", code, o.Result, o.Error, want)
		}
	}
}

func TestTracebackShowsTokens(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	o := w.program(t, sandbox.Program{Code: "x = '" + mail + "'\n(x, '" + mail + "' + 1)", Tokens: map[string]string{mail: "ada"}}, h)
	if err := contains(o.Traceback, []string{"line 2", "(x, '" + mail + "' + 1)", "~~^~~", "!ada"}); err != nil ||
		o.ErrorType != "TypeError" {
		t.Errorf("%v\n%+v", err, o)
	}
}

func TestChecksRunAfterTokenReplacement(t *testing.T) {
	w, h := openShop(t)
	tokens := map[string]string{mail: "ada@example.org"}
	o := w.program(t, sandbox.Program{Code: "from servers.shop import order\norder('" + mail + "')['args']", Tokens: tokens,
		Preflight: true}, h)
	if string(o.Result) != `{"item":"ada@example.org"}` || len(h.checked) != 1 || !strings.Contains(h.checked[0],
		`{"value":"ada@example.org"}`) {
		t.Errorf("%+v, checked %q", o, h.checked)
	}
}

func TestTokensApplyToOneExecution(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	for _, row := range []struct {
		code   string
		tokens map[string]string
		want   string
	}{
		{"def f(): return '" + mail + "'\nf()", map[string]string{mail: "first"}, `"first"`},
		{"['" + mail + "', f()]", map[string]string{mail: "second"}, `["second","first"]`},
		{"['" + mail + "', f()]", nil, `["` + mail + `","first"]`},
	} {
		if o := w.program(t, sandbox.Program{Code: row.code, Tokens: row.tokens}, h); string(o.Result) != row.want {
			t.Errorf("%s gave %s (%s), want %s", row.code, o.Result, o.Error, row.want)
		}
	}
}

// Text that code compiles is a string of its own: what is put there is put as it is.
func TestTokenInCompiledTextIsRawValue(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	run := func(code, value string) sandbox.Outcome {
		return w.program(t, sandbox.Program{Code: strings.ReplaceAll(code, "TOKEN", mail), Tokens: map[string]string{mail: value}}, h)
	}
	if o := run("exec('x = \"TOKEN\"')\nx", "plain"); string(o.Result) != `"plain"` {
		t.Errorf("%+v", o)
	}
	if o := run("exec('x = \"TOKEN\"')\nx", `a"b`); o.ErrorType != "SyntaxError" {
		t.Errorf("%+v", o)
	}
	if o := run("s = '[EMAIL_' + 'k7q2m9x4d3w8n5rt]'\neval(repr(s))", "plain"); string(o.Result) != `"`+mail+`"` {
		t.Errorf("%+v", o)
	}
}

var privateRows = []program{
	{"tokenize_pii", "tokenize_pii('to ada@example.org')", "", value(`["to ` + mail + `",{"` + mail + `":"ada@example.org"}]`)},
	{"there and back", "s = 'to ada@example.org'\ntext, tokens = tokenize_pii(s)\n[detokenize_pii(text) == s, detokenize_pii(text, " +
		"tokens) == s, text == s]", "", value(`[true,true,false]`)},
	{"no tokens at all", "detokenize_pii('" + mail + "', {})", "", value(`"` + mail + `"`)},
	{"one pass", "detokenize_pii('[A][AB]]', {'[A]': '[AB]', '[AB]': '[A]', '[AB]]': ']', '': 'x'})", "", value(`"[AB]]"`)},
	{"what is no text", "detokenize_pii('[A]\\ud800', {'[A]': '\\ud83d'}) == '\\ud83d\\ud800'", "", value(`true`)},
	{"many tokens", "d = {f'[A_{i}]': f'<{i}>' for i in range(10**5)}\ndetokenize_pii(''.join(d), d) == ''.join(d.values())", "",
		value(`true`)},
	{"tokenize what is no text", "tokenize_pii(['a'])", "", raised("TypeError", "tokenize_pii(text): text must be a str, got list")},
	{"detokenize what is no text", "detokenize_pii(b'a')", "",
		raised("TypeError", "detokenize_pii(text, tokens): text must be a str, got bytes")},
	{"tokens that are no dict", "detokenize_pii('a', [mail])", `{"mail": "x"}`, raised("TypeError", "tokens must be a dict, got list")},
	{"tokens that stand for no text", "detokenize_pii('a', {'a': 1})", "", raised("TypeError", "a dict of str to str, it holds int")},
	{"tokens that are no text", "detokenize_pii('a', {1: 'a'})", "", raised("TypeError", "a dict of str to str, it holds int")},
	{"in a skill", "save_skill('s', 'def s(): return tokenize_pii(\"ada@example.org\")[0]')\nfrom skills import s\ns()", "",
		value(`"` + mail + `"`)},
	{"in help()", helped + "help()\n[l for l in told().splitlines() if 'tokenize_pii' in l]", "",
		value(`["tokenize_pii(text): Return text with personal data replaced by tokens, and a dict of token to value.",` +
			`"detokenize_pii(text, tokens=None): Return text with tokens replaced by values: those in the dict tokens, or else all known ` +
			`to this session."]`)},
	{"in a forked process", "import os, sys\npid = os.fork()\nif pid == 0:\n    try: tokenize_pii('a')\n    except RuntimeError: " +
		"os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "", value(`7`)},
	{"a variable of that name", "tokenize_pii", `{"tokenize_pii": 5}`, value(`5`)},
}

func TestPrivacyHelpers(t *testing.T) {
	for _, row := range privateRows {
		t.Run(row.name, func(t *testing.T) {
			w, h := open(t, worker.Limits{}), newHost()
			o := w.program(t, sandbox.Program{Code: row.code, Vars: json.RawMessage(row.vars), Privacy: true}, h)
			if row.want.Status == "" {
				row.want.Status = sandbox.Completed
			}
			if diff := cmp.Diff(row.want, outcome(o, h.output, row.want)); diff != "" {
				t.Errorf("%s\ntraceback: %s", diff, o.Traceback)
			}
		})
	}
}

func TestPrivacyHelpersPersist(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	const code = helped + "help()\n['tokenize_pii' in globals(), 'tokenize_pii' in told(), 'detokenize_pii' in globals()]"
	for _, row := range []struct {
		p    sandbox.Program
		want string
	}{
		{sandbox.Program{Code: code}, "[false,false,false]"},
		{sandbox.Program{Code: "from skills import s\ns()"}, "[]"},
		{sandbox.Program{Code: code, Privacy: true}, "[true,true,true]"},
		{sandbox.Program{Code: "tokenize_pii = 5\ntokenize_pii", Privacy: true}, "5"},
		{sandbox.Program{Code: "tokenize_pii", Privacy: true}, "5"},
		{sandbox.Program{Code: "from skills import s\ns()"}, `["detokenize_pii","tokenize_pii"]`},
	} {
		h.skills["s"] = "def s(): return sorted(n for n in globals() if 'tokenize' in n)"
		if o := w.program(t, row.p, h); string(o.Result) != row.want {
			t.Errorf("%+v gave %s (%s), want %s", row.p, o.Result, o.Error, row.want)
		}
	}
}

func TestNumberTokenBecomesNumber(t *testing.T) {
	w := open(t, worker.Limits{})
	tokens := map[string]string{mail: "123456789", other: "1.5"}
	code := `[` + "'" + mail + "', b'" + mail + "', 'x " + mail + "', f'" + mail + "', f'" + mail + "{1}', {'" + other + "': '" + other +
		"'}]"
	o := w.program(t, sandbox.Program{Code: code, Tokens: tokens, NumberTokens: []string{mail, other}}, newHost())
	if want := `[123456789,"123456789","x 123456789","123456789","1234567891",{"1.5":1.5}]`; string(o.Result) != want {
		t.Errorf("%s %s, want %s", o.Result, o.Error, want)
	}
}
