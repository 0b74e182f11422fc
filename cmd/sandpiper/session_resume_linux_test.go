package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// resumeSession calls the tool resume_session.
func (s *served) resumeSession(session string) execAnswer {
	s.t.Helper()
	s.id++
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"resume_session","arguments":{"session_id":%q}}}`,
		s.id, session))
	r, ok := s.hear()
	if !ok {
		s.t.Fatal("the daemon has died")
	}
	return r
}

// TestResumedSessionRepeatsNoCall kills a daemon and rebuilds the session's variables with the tool
// and with the command. The server counts the calls.
func TestResumedSessionRepeatsNoCall(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, ledger := books(t)
	s := serve(t, dir)
	for _, code := range []string{
		"from servers import ledger\ndef add(n): return int(ledger.add(n=n))",
		"total = sum(add(n) for n in range(5))",
		"total += int(ledger.look(n=100)) + add(1)",
	} {
		if r := s.call("books", code); !r.Success {
			t.Fatal(r.raw)
		}
	}
	want := map[int]int{0: 1, 1: 2, 2: 1, 3: 1, 4: 1}
	if got := entered(t, ledger); !cmp.Equal(got, want) {
		t.Fatalf("before: %v", got)
	}
	s.kill()
	s = serve(t, dir)
	if r := s.call("books", "found = 'total' in globals()"); !r.Success || r.Session.State != "restarted" {
		t.Fatalf("%s", r.raw)
	}
	if r := s.resumeSession("books"); !r.Success || !strings.Contains(r.raw, `"tasks":4,"differs":[],"notes":[]`) {
		t.Fatalf("%s", r.raw)
	}
	if r := s.call("books", "total"); string(r.Result) != "111" || r.Session.State != "live" {
		t.Errorf("%+v", r)
	}
	s.kill()
	out, err := sandpiper(dir, "session", "resume", "books", "-c", "total").CombinedOutput()
	if err != nil || string(out) != "111\n" {
		t.Errorf("%s, %v", out, err)
	}
	if got := entered(t, ledger); !cmp.Equal(got, want) {
		t.Errorf("afterwards: %v", got)
	}
	s = serve(t, dir)
	if r := s.resumeSession("books"); !r.Success {
		t.Fatalf("%s", r.raw)
	}
	if r := s.call("books", "add(9)"); string(r.Result) != "9" || entered(t, ledger)[9] != 1 {
		t.Errorf("a new call after the rebuild: %+v", r)
	}
}
