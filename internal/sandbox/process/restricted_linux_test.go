package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/sandboxtest"
)

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

func TestSandboxContainsGapsOfRestrictedCode(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	secret := filepath.Join(h.roots, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := 0
	for _, gap := range sandboxtest.Gaps {
		if o := restricted(t, b, h.spec("a"), gap.Code); string(o.Result) != gap.Result {
			t.Errorf("%s: the gap is closed: %+v", gap.Name, o)
		}
		if gap.Escapes {
			out++
			code := strings.Replace(gap.Code+behindTheFence, "secret)", `"`+secret+`")`, 1)
			if o := restricted(t, b, h.spec("a"), code); string(o.Result) != "[]" {
				t.Errorf("%s: behind it code got %s: %+v", gap.Name, o.Result, o)
			}
		}
	}
	if out == 0 {
		t.Error("no gap leads out, so this test shows nothing")
	}
}

func TestSandboxIsReusableAfterRefused(t *testing.T) {
	h := newHost(t)
	b := h.backend(nil)
	s, err := b.Open(t.Context(), h.spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, row := range []struct {
		code   string
		status sandbox.Status
	}{{"x = 1", sandbox.Completed}, {"import os", sandbox.Refused}, {"x", sandbox.Completed}, {"exec('import os')", sandbox.Raised}} {
		o, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: row.code, Restricted: true}, sandbox.NoHost{})
		if err != nil || o.Status != row.status {
			t.Fatalf("%s: %+v, %v; want %s", row.code, o, err, row.status)
		}
	}
}

func restricted(t *testing.T, b *Backend, spec sandbox.Spec, code string) sandbox.Outcome {
	t.Helper()
	s, err := b.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := s.Run(t.Context(), sandbox.Program{ID: "test", Code: code, Restricted: true}, sandbox.NoHost{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
