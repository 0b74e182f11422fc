package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// came returns the values that the tool record received since the last call.
func came(t *testing.T, script string) (values []string) {
	t.Helper()
	file := filepath.Join(filepath.Dir(script), "recorded")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var args struct{ Value any }
		decodeNumbers(t, []byte(line), &args)
		values = append(values, fmt.Sprint(args.Value))
	}
	return values
}

// recording returns code that calls the tool with each value.
func recording(values []string) string {
	return "from servers.people import record\nfor x in " + string(asJSON(append([]string{}, values...))) + ": record(value=x)"
}

// sends runs code that calls the tool with the client's values, as constants and as
// variables, and returns the values that the tool received.
func (l *leakTest) sends(session string, values ...string) (constants, variables []string) {
	l.t.Helper()
	came(l.t, l.script)
	l.runsTo(recording(values), "session_id", session)
	constants = came(l.t, l.script)
	l.runsTo("from servers.people import record\nfor x in sent: record(value=x)", "session_id", session, "context_vars",
		map[string]any{"sent": append([]string{}, values...)})
	return constants, came(l.t, l.script)
}

// runsTo runs code and waits for its result.
func (l *leakTest) runsTo(code string, more ...any) {
	l.t.Helper()
	if r := l.execute(code, more...); !r.Success {
		l.t.Errorf("%.1000s", r.raw)
	}
}

// arrive checks the values that the tool receives for the client's tokens.
func (l *leakTest) arrive(session string, sent, want []string) {
	l.t.Helper()
	constants, variables := l.sends(session, sent...)
	if d := cmp.Diff(want, constants); d != "" {
		l.t.Errorf("in session %q, from constants, came (-want +got):\n%s", session, d)
	}
	if d := cmp.Diff(want, variables); d != "" {
		l.t.Errorf("in session %q, from context_vars, came (-want +got):\n%s", session, d)
	}
}

// shown returns the tokens of the corpus that a session is shown, and the values in the
// same order.
func (l *leakTest) shown(session string) (tokens, values []string) {
	l.t.Helper()
	l.setValues(l.t, textFiles)
	values = strings.Split(l.c.lines(), "\n")
	r := l.execute("from servers.people import records\nv = records()\nresult = [v[k] for k in sorted(v)]", "session_id", session)
	l.decode(string(r.Result), &tokens)
	for _, text := range tokens {
		if !token.MatchString(text) {
			l.t.Fatalf("shown was %s", r.raw)
		}
	}
	return tokens, values
}

func TestTokensBelongToTheirSession(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	l := newLeakTest(t, "egress", "2025-11-25")
	tokens, values := l.shown("a")
	l.arrive("a", tokens, values)
	l.arrive("b", tokens, tokens)
	l.arrive("", tokens, values)
	everywhere, values := l.shown("")
	l.arrive("b", everywhere, values)
}

func TestForgedTokensAreNotRestored(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	l := newLeakTest(t, "egress", "2026-07-28")
	tokens, values := l.shown("")
	i := slices.IndexFunc(tokens, func(s string) bool { return strings.HasPrefix(s, "[EMAIL_") })
	good, value := tokens[i], values[i]
	id := strings.TrimSuffix(strings.TrimPrefix(good, "[EMAIL_"), "]")
	forged := []string{"[EMAIL_0000000000000000]", "[NAME_" + id + "]", "[EMAIL_" + id[1:] + "]", "[EMAIL_" + id + "0000]",
		"[EMAIL_" + strings.ToUpper(id) + "]", "[email_" + id + "]",
		"[EMAIL_" + id, "[ EMAIL_" + id + "]", "[EMAIL_withheld]"}
	l.arrive("", forged, forged)
	l.arrive("", []string{good + good, "to " + good + ", please", "[EMAIL_" + good + "]", "[" + good + "]"},
		[]string{value + value, "to " + value + ", please", "[EMAIL_" + value + "]", "[" + value + "]"})
}

// A server that sends a token, known or guessed, does not receive its value.
func TestTokensInServerTextAreNotRestored(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	l := newLeakTest(t, "egress", "2025-11-25")
	tokens, values := l.shown("")
	said := map[string]string{"good": tokens[0], "forged": "[EMAIL_0000000000000000]", "marked": "[~EMAIL_0000000000000000]"}
	upstreamtest.Write(t, l.script, upstreamtest.Script{Tools: peopleTools(), Answers: map[string]json.RawMessage{
		"call records": asJSON(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(asJSON(said))}}}),
		"call record":  asJSON(map[string]any{"content": []any{}}),
	}})
	r := l.execute("from servers import people\nfor x in people.records().values(): people.record(value=x)\nresult = people.records()")
	if got := came(t, l.script); !cmp.Equal(got, []string{said["forged"], said["good"], said["marked"]}) {
		t.Errorf("from one server to another came %q", got)
	}
	var shown map[string]string
	l.decode(string(r.Result), &shown)
	// It is marked once on the way to the code and once on the way to the client.
	want := map[string]string{"good": "[~~" + tokens[0][1:], "forged": "[~~EMAIL_0000000000000000]",
		"marked": "[~~~EMAIL_0000000000000000]"}
	if d := cmp.Diff(want, shown); d != "" {
		t.Errorf("the client was shown (-want +got):\n%s", d)
	}
	l.arrive("", []string{shown["good"], shown["forged"], shown["marked"], tokens[0]},
		[]string{said["good"], said["forged"], said["marked"], values[0]})
}

func TestTokensBelongToTheirTenant(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	script := filepath.Join(t.TempDir(), "script")
	l := &leakTest{script: script}
	l.setValues(t, textFiles)
	const alices, bobs = "alices-token-of-some-length", "bobs-token-of-some-length"
	d := startServing(t, "", peopleConfig(t, script)+privacyConfig("egress")+fmt.Sprintf("http: {tokens: {alice: %s, bob: %s}}\n", alices,
		bobs))
	alice, bob := d.visit("Authorization", "Bearer "+alices), d.visitOlder("Authorization", "Bearer "+bobs)
	const show = "from servers.people import records\nv = records()\nresult = [v[k] for k in sorted(v)]"
	hers, his, values := alice.value(show), bob.value(show), strings.Split(l.c.lines(), "\n")
	if found := leaks(hers+his, values); len(found) > 0 {
		t.Errorf("the clients were sent %q", found)
	}
	a, b := tokensIn(hers), tokensIn(his)
	if len(a) != len(values) || len(b) != len(values) {
		t.Fatalf("shown was %s and %s", hers, his)
	}
	bob.value(recording(a))
	if got := came(t, script); !cmp.Equal(got, a) {
		t.Errorf("from bob came %q", got)
	}
	alice.value(recording(a))
	got := came(t, script)
	slices.Sort(got)
	slices.Sort(values)
	if d := cmp.Diff(values, got); d != "" {
		t.Errorf("from alice came (-want +got):\n%s", d)
	}
	for _, one := range a {
		if slices.Contains(b, one) {
			t.Errorf("%s is a token of both", one)
		}
	}
}
