package restricted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// gap is a known bypass of the check of restricted code, documented in docs/restricted.md.
type gap struct {
	name    string // a sentence without a full stop, as in the page
	code    string // Python that uses the gap
	result  string // JSON of the result if the gap exists
	escapes bool   // the gap gives access to all of Python: the variable load is the real __import__
}

// gaps are all known gaps.
var gaps = []gap{{
	name:   "Text formatting reads attributes, as text",
	code:   `"{0.__class__.__base__}".format(1)`,
	result: `"<class 'object'>"`,
}, {
	name:   "A parameter named self gives access to the private attributes of any object",
	code:   "def target(self): return self._target\nimport threading\ntarget(threading.Thread(target=len))([1, 2])",
	result: `2`,
}, {
	name: "Private attributes of a library's objects can give access to forbidden modules",
	code: `import copy, typing
def rename(self): self._name = "__builtins__"
alias = typing.List[int].copy_with(("__import__",))
rename(alias)
load = copy.copy(alias)
load("os").getpid() > 0`,
	result:  `true`,
	escapes: true,
}, {
	name:   "Classes of a library can be changed for the rest of the session",
	code:   "def default(self, o): return 'changed'\njson.JSONEncoder.default = default\njson.dumps(object())",
	result: `"\"changed\""`,
}}

// behindTheFence is Python for code that has got past the check, and has the
// real __import__ as load: it tries what the sandbox promises that code cannot.
const behindTheFence = `
got = []
def attempt(what, f):
    try: got.append([what, repr(f())[:200]])
    except OSError: pass
posix = load("os")
attempt("a file of the host", lambda: load("io").open(secret).read())
attempt("a password file", lambda: load("io").open("/etc/shadow").read())
attempt("a network", lambda: load("socket").socket())
attempt("another process", lambda: posix.kill(posix.getppid() or 2, 0))
attempt("a file outside", lambda: load("io").open("/escaped", "w"))
attempt("a mount", lambda: load("io").open("/proc/self/mem", "rb").read(1))
result = got`

// The gaps listed in docs/restricted.md exist, and the sandbox contains them. A change that closes one removes
// it from that page.
func TestSandboxContainsGaps(t *testing.T) {
	out := 0
	for _, gap := range gaps {
		if o := open(t).restricted(t, gap.code, sandbox.NoHost{}); string(o.Result) != gap.result {
			t.Errorf("%s: the gap is closed: %+v", gap.name, o)
		}
		if gap.escapes {
			out++
			secret := filepath.Join(scratch, "secret")
			if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			code := strings.Replace(gap.code+behindTheFence, "secret)", `"`+secret+`")`, 1)
			if o := open(t).restricted(t, code, sandbox.NoHost{}); string(o.Result) != "[]" {
				t.Errorf("%s: behind it code got %s: %+v", gap.name, o.Result, o)
			}
		}
	}
	if out == 0 {
		t.Error("no gap leads out, so this test shows nothing")
	}
}
