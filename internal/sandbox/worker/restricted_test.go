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

// restricted runs code that has to pass the check.
func (w *pyWorker) restricted(t testing.TB, code, vars string, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	w.number++
	p := sandbox.Program{ID: "exec_test", Code: code, Vars: json.RawMessage(vars), Restricted: true}
	o, err := w.Run(context.Background(), w.number, p, h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestForbiddenProgramsAreRefused(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost() // one for all: it lives on
	for _, row := range forbidden {
		o := w.restricted(t, "print('ran')\n"+row.code, "", h)
		if o.Status != sandbox.Refused || o.ErrorType != "RestrictedError" || !strings.Contains(o.Error, row.says) || len(h.output) > 0 {
			t.Errorf("%s: %s\nis %s %s %q, output %q; want …%s…", row.name, row.code, o.Status, o.ErrorType, o.Error, h.output, row.says)
		}
		h.output = nil
	}
	if o := w.restricted(t, "1 + 1", "", h); string(o.Result) != "2" {
		t.Errorf("after all refusals: %+v", o)
	}
}

func TestForbiddenOperationsRaiseAtRunTime(t *testing.T) {
	for _, row := range refusedLate {
		t.Run(row.name, func(t *testing.T) { checkRestricted(t, row) })
	}
}

func TestOrdinaryProgramsRunRestricted(t *testing.T) {
	for _, row := range ordinary {
		t.Run(row.name, func(t *testing.T) { checkRestricted(t, row) })
	}
}

func checkRestricted(t *testing.T, row program) {
	t.Helper()
	w, h := open(t, worker.Limits{ResultBytes: 1 << 20}), newHost()
	o := w.restricted(t, row.code, row.vars, h)
	if row.want.Status == "" {
		row.want.Status = sandbox.Completed
	}
	if diff := cmp.Diff(row.want, outcome(o, h.output, row.want)); diff != "" {
		t.Errorf("%s\n%s\ntraceback: %s", row.code, diff, o.Traceback)
	}
}

// mixed are programs for one interpreter, restricted or free.
var mixed = []struct {
	free bool
	code string
	want want
}{
	{code: "import json as j\nx = 1\ndef f(s): exec(s)\nresult = x", want: value(`1`)},
	{code: "def g(): return result\ng()", want: value(`1`)},
	{code: "result = 2", want: value(`2`)},
	{code: "def h(): return result + 1\n[g(), h()]", want: value(`[2,3]`)},
	{code: "d = {}\nexec('', d)\nd['__builtins__'].clear()"},
	{code: "[len([1]), g()]", want: value(`[1,2]`)},
	{code: "result = 1", want: value(`1`)},
	{code: "import os", want: want{Status: sandbox.Refused, ErrorType: "RestrictedError", Error: "the module os"}},
	{code: "x + result", want: value(`2`)},
	{code: "f('import os')", want: late("the module os")},
	{code: "y = (", want: raised("SyntaxError", "never closed")},
	{code: "json.codecs", want: raised("AttributeError", "json.codecs is not available")},
	{free: true, code: "import os, sys\nos.getpid() > 0 and workspace in sys.path and json is sys.modules['json'] and json.codecs.__name__", want: value(`"codecs"`)},
	{free: true, code: "open('helper.py', 'w').write('import os') and None\n", want: want{}},
	{free: true, code: "f('import os')", want: late("the module os")},
	{free: true, code: "save_skill('s', 'import os\\ndef s(): return os.sep')\nfrom skills import s\ns()", want: value(`"/"`)},
	{free: true, code: "import helper, skills\n().__class__.__name__", want: value(`"tuple"`)},
	{code: "from skills import s", want: late("the module os")},
	{code: "import helper", want: want{Status: sandbox.Refused, ErrorType: "RestrictedError", Error: "the module helper"}},
	{code: "[json.dumps(x), hasattr(json, 'codecs')]", want: value(`["1",false]`)},
	{code: "json = 5", want: want{}},
	{free: true, code: "json", want: value(`5`)},
	{code: "json", want: value(`5`)},
	{code: "class C:\n    def __repr__(self):\n        try: exec('import os')\n        except RestrictedError: return 'refused'\nC()", want: value(`"refused"`)},
}

func TestRestrictedIsPerExecution(t *testing.T) {
	w, h := open(t, worker.Limits{ResultBytes: 1 << 20}), newHost()
	for _, row := range mixed {
		run := w.restricted
		if row.free {
			run = func(t testing.TB, code, vars string, h sandbox.Host) sandbox.Outcome {
				return w.run(context.Background(), t, code, vars, h)
			}
		}
		o := run(t, row.code, "", h)
		if row.want.Status == "" {
			row.want.Status = sandbox.Completed
		}
		if diff := cmp.Diff(row.want, outcome(o, nil, row.want)); diff != "" {
			t.Fatalf("%s (free %v)\n%s\ntraceback: %s", row.code, row.free, diff, o.Traceback)
		}
	}
}

func TestRefusedCodeHasNoEffect(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	if o := w.restricted(t, "x.__class__", `{"x": 1}`, h); o.Status != sandbox.Refused || o.Traceback != "" || !strings.HasPrefix(o.Error, "line 1: ") {
		t.Errorf("%+v", o)
	}
	if o := w.restricted(t, "x", "", h); o.ErrorType != "NameError" {
		t.Errorf("a variable of refused code is there: %+v", o)
	}
}

func TestRefusedStatusRequiresCheck(t *testing.T) {
	const forged = "import os, struct\np = b'{\"status\":\"refused\",\"error\":\"no\",\"error_type\":\"X\"}'\nos.write(%s.fd, struct.pack('>IcI', len(p), b'D', 1) + p)\nos._exit(0)"
	w, h := open(t, worker.Limits{}), newHost()
	o := w.run(context.Background(), t, strings.Replace(forged, "%s", "save_skill.__self__._channel", 1), "", h)
	if o.Status != sandbox.Crashed || !strings.Contains(o.Error, "protocol") {
		t.Errorf("%+v", o)
	}
}

func TestAllFindingsAreReported(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	o := w.restricted(t, "x = 1\nx.__class__\nx.__dict__\nopen('f')\n__builtins__\nimport json", "", h)
	want := []string{"line 2: the attribute __class__", "; line 3: the attribute __dict__", "; line 4: open is not", "; and 1 more", "!line 5"}
	if err := contains(o.Error, want); err != nil {
		t.Error(err)
	}
}
