package vault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

const redacted = "[EMAIL_withheld]"

func TestLimitRedactsNewValues(t *testing.T) {
	for name, bound := range map[string]func(*vault.Config){
		"kept":    func(c *vault.Config) { c.MaxRecords = 3 },
		"an hour": func(c *vault.Config) { c.MaxNew = 3 },
	} {
		p := newTestDir(t)
		v, b := p.open(t, "a", bound), p.open(t, "b", bound)
		values := many(5)
		tokens := tokenize(t, v, "", values...)
		if !cmp.Equal(tokens[3:], []vault.Token{redacted, redacted}) {
			t.Fatalf("%s: %v", name, tokens)
		}
		again := tokenize(t, p.open(t, "a", bound), "s", values...) // as in another process
		if diff := cmp.Diff(tokens, again); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := restores(t, v, "s", again...); len(got) != 3 {
			t.Errorf("%s: restored %d values", name, len(got))
		}
		if log := p.log.String(); strings.Count(log, "vault limit reached") != 1+1 || strings.Contains(log, "@") {
			t.Errorf("%s: log: %q", name, log) // once per minute and process
		}
		if theirs := tokenize(t, b, "", values[4]); theirs[0] == redacted {
			t.Errorf("%s: the limit of a tenant affects another", name)
		}
		p.now = p.now.Add(time.Hour)
		if later := tokenize(t, v, "", values...); (later[4] == redacted) != (name == "kept") {
			t.Errorf("%s: an hour later %v", name, later)
		}
	}
}

func TestDisclosuresAreLimited(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a", func(c *vault.Config) { c.MaxRecords = 3 })
	token := tokenize(t, v, "first", email("ada@example.com"))[0]
	disclosed := 0
	for i := range 20 {
		if got := tokenize(t, v, fmt.Sprint(i), email("ada@example.com"))[0]; got == token {
			disclosed++
		} else if got != redacted {
			t.Errorf("session %d gets %s", i, got)
		}
	}
	if disclosed != 4*3-1 || len(restores(t, v, "first", token)) != 1 {
		t.Errorf("disclosed to %d more sessions", disclosed)
	}
	tokenize(t, p.open(t, "b"), "s", email("ada@example.com"))
}

func TestLongValueIsRedacted(t *testing.T) {
	p := newTestDir(t)
	for _, name := range []string{"a", "b"} {
		v := p.open(t, name)
		got := tokenize(t, v, "", email(strings.Repeat("x", 64<<10)), email(strings.Repeat("x", 64<<10+1)))
		if got[0] == redacted || got[1] != redacted || len(restores(t, v, "", got...)) != 1 {
			t.Errorf("%.40q", got)
		}
	}
}

func TestQuotaIsSharedByProcesses(t *testing.T) {
	p := newTestDir(t)
	bound := func(c *vault.Config) { c.MaxOnRequest = 10 }
	a, again, b := p.open(t, "a", bound), p.open(t, "a", bound), p.open(t, "b", bound)
	for _, n := range []int{-1, 11} {
		if err := a.ConsumeQuota(t.Context(), n); fault.KindOf(err) != fault.Exhausted {
			t.Errorf("%d: %v", n, err)
		}
	}
	for i, v := range []*vault.Vault{a, again} {
		if err := v.ConsumeQuota(t.Context(), 5); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	p.now = p.now.Add(10 * time.Minute)
	err := a.ConsumeQuota(t.Context(), 1)
	if fault.KindOf(err) != fault.Exhausted || !strings.Contains(fault.Message(err), "try again in 50 minutes") || fault.Hint(err) == "" {
		t.Error(err)
	}
	if err := b.ConsumeQuota(t.Context(), 10); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	p.now = p.now.Add(50 * time.Minute)
	if err := again.ConsumeQuota(t.Context(), 10); err != nil {
		t.Errorf("an hour later: %v", err)
	}
	p.now = p.now.Add(-24 * time.Hour)
	if err := again.ConsumeQuota(t.Context(), 10); err != nil {
		t.Errorf("with the clock set back: %v", err)
	}
}

func TestTTL(t *testing.T) {
	p := newTestDir(t)
	ttl := func(c *vault.Config) {
		c.TTL = map[detect.Type]time.Duration{"": time.Hour, detect.Phone: 3 * time.Hour, detect.Name: 0}
	}
	v, b := p.open(t, "a", ttl), p.open(t, "b")
	values := []vault.Value{email("ada@example.com"), {Type: detect.Phone, Text: "+1 212 555 0123"}, {Type: detect.Name, Text: "Ada"}}
	tokens, theirs := tokenize(t, v, "s", values...), tokenize(t, b, "s", values...)
	open := func() []*vault.Vault { return []*vault.Vault{v, p.open(t, "a", ttl)} }
	expect := func(n int) {
		t.Helper()
		for i, v := range open() {
			if got := restores(t, v, "s", tokens...); len(got) != n {
				t.Errorf("%d: restored %d values, want %d", i, len(got), n)
			}
		}
	}
	p.now = p.now.Add(59 * time.Minute)
	expect(3)
	tokenize(t, v, "s", values[0]) // one hour more
	p.now = p.now.Add(59 * time.Minute)
	expect(3)
	p.now = p.now.Add(time.Minute)
	expect(2)
	if err := v.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := column(t, p.db(t, "a"), "SELECT type FROM vault_records WHERE encrypted IS NOT NULL"); !cmp.Equal(left,
		[]string{"PHONE", "NAME"}) {
		t.Errorf("after Sweep: %v", left)
	}
	if left := column(t, p.db(t, "a"), "SELECT record FROM vault_disclosures"); len(left) != 2 {
		t.Errorf("%d disclosures, want 2", len(left))
	}
	if again := tokenize(t, v, "t", email("Ada@example.com"), values[0]); again[0] == tokens[0] || again[1] != tokens[0] {
		t.Errorf("the id of an expired value was reused: %v, before %s", again, tokens[0])
	}
	if got := restores(t, v, "s", tokens[0]); len(got) != 0 {
		t.Error("a disclosure survived the expiry")
	}
	if got := restores(t, b, "s", theirs...); len(got) != 3 {
		t.Error("values of another tenant expired")
	}
}

func TestSweepFreesRecordsAndLimitsReservedIDs(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a", func(c *vault.Config) { c.MaxRecords, c.TTL = 10, map[detect.Type]time.Duration{"": time.Hour} })
	for round := range 4 {
		var values []vault.Value
		for i := range 12 {
			values = append(values, email(fmt.Sprintf("%d.%d@example.com", round, i)))
		}
		tokens := tokenize(t, v, "s", values...)
		if tokens[9] == redacted || tokens[10] != redacted {
			t.Fatalf("round %d: %v", round, tokens)
		}
		p.now = p.now.Add(time.Hour)
		if err := v.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(column(t, p.db(t, "a"), "SELECT id FROM vault_records")); n != 10 {
		t.Errorf("%d rows are left", n)
	}
	tokenize(t, p.open(t, "b"), "s", email("ada@example.com"))
}

func TestCachedValuesNeedNoDatabase(t *testing.T) {
	p := newTestDir(t)
	for _, name := range []string{"a", "b"} {
		db := p.db(t, name)
		v := p.open(t, name, func(c *vault.Config) { c.DB = db })
		tokens := tokenize(t, v, "s", variety...)
		db.Close()
		p.now = p.now.Add(time.Second - 1)
		if diff := cmp.Diff(tokens, tokenize(t, v, "s", variety...)); diff != "" {
			t.Error(diff)
		}
		if got := restores(t, v, "s", tokens...); len(got) == 0 {
			t.Error("nothing restored")
		}
		if _, err := v.Tokenize(t.Context(), "t", variety[:1]); err == nil {
			t.Error("disclosed to another session without a record")
		}
		p.now = p.now.Add(1)
		if _, err := v.Tokenize(t.Context(), "s", variety); err == nil {
			t.Error("the database is not checked after a second")
		}
	}
}
