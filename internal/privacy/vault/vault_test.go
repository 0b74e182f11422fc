package vault_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// testDir is a data directory with two tenants.
type testDir struct {
	dir string
	now time.Time
	log *strings.Builder
}

func newTestDir(t testing.TB) *testDir {
	return &testDir{dir: t.TempDir(), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), log: &strings.Builder{}}
}

// open opens the vault of a tenant as another process would.
func (p *testDir) open(t testing.TB, name string, change ...func(*vault.Config)) *vault.Vault {
	t.Helper()
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	master, err := vault.OpenMaster(t.Context(), "file", p.dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := vault.Config{Tenant: id, Master: master, Now: func() time.Time { return p.now },
		Log: slog.New(slog.NewTextHandler(p.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.DB == nil {
		cfg.DB = p.db(t, name)
	}
	return vault.New(cfg)
}

func (p *testDir) db(t testing.TB, name string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), p.file(name), []store.Migration{{Number: 1, Name: "vault", SQL: vault.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (p *testDir) file(name string) string { return filepath.Join(p.dir, name+".db") }

func email(text string) vault.Value { return vault.Value{Type: detect.Email, Text: text} }

// tokenize returns the tokens of values and discloses them to the session.
func tokenize(t testing.TB, v *vault.Vault, session string, values ...vault.Value) []vault.Token {
	t.Helper()
	tokens, err := v.Tokenize(t.Context(), session, values)
	if err != nil {
		t.Fatal(err)
	}
	if len(tokens) != len(values) {
		t.Fatalf("%d tokens for %d values", len(tokens), len(values))
	}
	return tokens
}

// restores returns the values restored for the session and checks Disclosed against
// them.
func restores(t testing.TB, v *vault.Vault, session string, tokens ...vault.Token) map[vault.Token]vault.Value {
	t.Helper()
	got, err := v.Restore(t.Context(), session, tokens)
	if err != nil {
		t.Fatal(err)
	}
	disclosed, err := v.Disclosed(t.Context(), session, tokens)
	if err != nil || len(disclosed) != len(got) {
		t.Errorf("disclosed %v, restored %v, %v", disclosed, got, err)
	}
	for token := range got {
		if !disclosed[token] {
			t.Errorf("%s is restored but not disclosed", token)
		}
	}
	return got
}

// variety has values of each type, many of which differ only in spelling.
var variety = []vault.Value{
	email("Ada@Example.com"), email("ada@example.com"), email(" ada@example.com "), email("ada@example.com"),
	{Type: detect.Phone, Text: "+1 (212) 555-0123"}, {Type: detect.Phone, Text: "12125550123"}, {Type: detect.Phone, Text: "12125550123",
		Number: true},
	{Type: detect.Phone, Text: "call me"}, {Type: detect.SSN, Text: "078-05-1120"}, {Type: detect.SSN, Text: "078051120", Number: true},
	{Type: detect.IBAN, Text: "de89 3704 0044 0532 0130 00"}, {Type: detect.IBAN, Text: "DE89370400440532013000"},
	{Type: detect.APIKey, Text: "sk-abcDEF"}, {Type: detect.APIKey, Text: "sk-ABCdef"},
	{Type: detect.Name, Text: "Ada  Lovelace"}, {Type: detect.Name, Text: "Ada Lovelace"}, {Type: detect.Address, Text: "Ada Lovelace"},
	{Type: "ORDER_7", Text: "\x00\xff[~]"}, {Type: "AB", Text: ""}, {Type: detect.Name, Text: strings.Repeat("ß", 32<<10)},
}

func TestRestoreReturnsExactValue(t *testing.T) {
	p := newTestDir(t)
	a, b := p.open(t, "a"), p.open(t, "b")
	tokens := tokenize(t, a, "s", variety...)
	seen := map[vault.Token]vault.Value{}
	for i, token := range tokens {
		if was, ok := seen[token]; ok && was != variety[i] {
			t.Errorf("%q and %q have the same token", was.Text, variety[i].Text)
		}
		seen[token] = variety[i]
		if token.Type() != variety[i].Type {
			t.Errorf("%s is of type %q, want %s", token, token.Type(), variety[i].Type)
		}
		if at := vault.FindTokens(string(token)); len(at) != 1 || at[0].End != len(token) {
			t.Errorf("%s does not have the syntax of a token", token)
		}
	}
	for name, v := range map[string]*vault.Vault{"the same": a, "another process": p.open(t, "a")} {
		if diff := cmp.Diff(seen, restores(t, v, "s", tokens...)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(tokens, tokenize(t, v, "s", variety...)); diff != "" {
			t.Errorf("%s: second Tokenize differs: %s", name, diff)
		}
	}
	if got := restores(t, b, "", tokens...); len(got) != 0 {
		t.Errorf("another tenant restores %v", got)
	}
	for i, token := range tokenize(t, b, "s", variety...) {
		if _, same := seen[token]; same {
			t.Errorf("%s is the token of %q for both tenants", token, variety[i].Text)
		}
	}
}

func TestSecondSurfaceHasLongerToken(t *testing.T) {
	p := newTestDir(t)
	tokens := tokenize(t, p.open(t, "a"), "", email("ada@example.com"), email("Ada@example.com"), email("ADA@example.com"))
	for i, token := range tokens[1:] { // one letter more, or two for the last if it has the letter of the second
		if stem := strings.TrimSuffix(string(tokens[0]), "]"); !strings.HasPrefix(string(token), stem) || len(token) <= len(tokens[0]) ||
			len(token) > len(tokens[0])+1+i {
			t.Errorf("%d: %s does not lengthen %s as little as possible", i, token, tokens[0])
		}
	}
	if tokens[1] == tokens[2] {
		t.Error("two spellings have the same token")
	}
}

func TestRestoreRequiresDisclosure(t *testing.T) {
	p := newTestDir(t)
	a, b := p.open(t, "a"), p.open(t, "b")
	mine := tokenize(t, a, "mine", email("mine@example.com"))[0]
	all := tokenize(t, a, "", email("all@example.com"))[0]
	for name, v := range map[string]*vault.Vault{"the same": a, "another process": p.open(t, "a")} {
		for session, want := range map[string]int{"mine": 2, "yours": 1, "": 2} {
			if got := restores(t, v, session, mine, all); len(got) != want {
				t.Errorf("%s: session %q gets %v", name, session, got)
			}
		}
	}
	if again := tokenize(t, a, "yours", email("mine@example.com"))[0]; again != mine {
		t.Errorf("%s, and before %s", again, mine)
	}
	if got := restores(t, a, "yours", mine); len(got) != 1 {
		t.Error("a token disclosed to a second session is not restored")
	}
	tokenize(t, a, "", email("mine@example.com"))
	if got := restores(t, p.open(t, "a"), "third", mine); len(got) != 1 {
		t.Error("a token disclosed without session is not restored in every session")
	}
	if got := restores(t, b, "mine", mine, all); len(got) != 0 {
		t.Errorf("another tenant restores %v", got)
	}
}

func TestRestoreOmitsUnknownTokens(t *testing.T) {
	p := newTestDir(t)
	v, other := p.open(t, "a"), p.open(t, "b")
	token := string(tokenize(t, v, "", email("ada@example.com"))[0])
	id := strings.TrimSuffix(strings.TrimPrefix(token, "[EMAIL_"), "]")
	for _, forged := range []string{
		"", "[", "[EMAIL]", "[EMAIL_]", "ada@example.com", "[~EMAIL_" + id + "]", "[PHONE_" + id + "]", "[EMAIL_" + id + "0000]",
		"[EMAIL_" + id[1:] + "]",
		"[EMAIL_" + strings.ToUpper(id) + "]", "[EMAIL_withheld]", token + " ", " " + token, token + token, "[EMAIL_" + strings.Repeat("0",
			16) + "]",
		"[EMAIL_" + string(tokenize(t, other, "", email("ada@example.com"))[0])[7:],
	} {
		if got := restores(t, v, "", vault.Token(forged)); len(got) != 0 {
			t.Errorf("%q gives %v", forged, got)
		}
	}
}

func TestTokenizeRejectsInvalidType(t *testing.T) {
	p := newTestDir(t)
	for _, typ := range []detect.Type{"", "E", "email", "_A", "9A", "A-B", "A]", detect.Type(strings.Repeat("A", 33))} {
		_, err := p.open(t, "a").Tokenize(t.Context(), "", []vault.Value{{Type: typ, Text: "x"}})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", typ, err)
		}
	}
	if tokens := tokenize(t, p.open(t, "b"), "", vault.Value{Type: detect.Type(strings.Repeat("A", 32)), Text: "x"}); len(restores(t,
		p.open(t, "b"), "", tokens...)) != 1 {
		t.Error("the longest type is not restored")
	}
}

func TestEachIsOrderedAndResumes(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a")
	tokenize(t, p.open(t, "b"), "", email("of b@example.com"))
	each := func(after int64) (texts []string, last int64) {
		last, err := p.open(t, "a").Each(t.Context(), after, func(value vault.Value) { texts = append(texts, value.Text) })
		if err != nil {
			t.Fatal(err)
		}
		return texts, last
	}
	if texts, last := each(0); texts != nil || last != 0 {
		t.Errorf("empty vault: %v, %d", texts, last)
	}
	var want []string
	var values []vault.Value
	for i := range 2500 {
		values = append(values, email(hex.EncodeToString([]byte{byte(i >> 8), byte(i)})+"@example.com"))
		want = append(want, values[i].Text)
	}
	tokenize(t, v, "s", values...)
	texts, last := each(0)
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	tokenize(t, v, "s", values[0], email("new@example.com"))
	if texts, _ := each(last); !cmp.Equal(texts, []string{"new@example.com"}) {
		t.Errorf("after the last record: %v", texts)
	}
}

func TestNilMasterIsRefused(t *testing.T) {
	p := newTestDir(t)
	token := tokenize(t, p.open(t, "a"), "", email("ada@example.com"))[0]
	for _, name := range []string{"a", "b"} {
		v := p.open(t, name, func(c *vault.Config) { c.Master = nil })
		for what, err := range uses(t.Context(), v, token) {
			if fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// uses calls every method that needs the keys.
func uses(ctx context.Context, v *vault.Vault, token vault.Token) map[string]error {
	_, tokenized := v.Tokenize(ctx, "", []vault.Value{email("new@example.com")})
	_, restored := v.Restore(ctx, "", []vault.Token{token})
	_, each := v.Each(ctx, 0, func(vault.Value) {})
	return map[string]error{"Tokenize": tokenized, "Restore": restored, "Each": each}
}

func TestWrongMasterKeyIsRefused(t *testing.T) {
	for name, harm := range map[string]func(key string) error{
		"lost":       os.Remove,
		"another":    func(key string) error { return os.WriteFile(key, make([]byte, 32), 0o600) },
		"half":       func(key string) error { return os.Truncate(key, 16) },
		"empty":      func(key string) error { return os.Truncate(key, 0) },
		"unreadable": func(key string) error { return errors.Join(os.Remove(key), os.Mkdir(key, 0o700)) },
	} {
		p := newTestDir(t)
		value, key := email("ada@example.com"), filepath.Join(p.dir, "key")
		token := tokenize(t, p.open(t, "a"), "", value)[0]
		kept, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := harm(key); err != nil {
			t.Fatal(err)
		}
		for _, tenant := range []string{"a", "b"} { // b has no keys
			for what, err := range uses(t.Context(), p.open(t, tenant), token) {
				if tenant == "b" && what != "Tokenize" {
					continue
				}
				if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "master key with fingerprint") ||
					fault.Hint(err) == "" {
					t.Errorf("%s: %s of %s: %v", name, what, tenant, err)
				}
			}
		}
		if err := errors.Join(os.RemoveAll(key), os.WriteFile(key, kept, 0o600)); err != nil {
			t.Fatal(err)
		}
		if got := restores(t, p.open(t, "a"), "", token); got[token] != value {
			t.Errorf("%s: with the original key: %v", name, got)
		}
		if again := tokenize(t, p.open(t, "a"), "", value)[0]; again != token {
			t.Errorf("%s: the token changed from %s to %s", name, token, again)
		}
	}
}

func TestDamagedRecordIsLoggedWithoutValue(t *testing.T) {
	p := newTestDir(t)
	values := []vault.Value{email("one@example.com"), email("two@example.com"), email("three@example.com")}
	tokens := tokenize(t, p.open(t, "a"), "", values...)
	change(t, p.db(t, "a"), "UPDATE vault_records SET encrypted = (SELECT encrypted FROM vault_records WHERE number = 2) WHERE number = 1")
	got := restoreValues(t, p.open(t, "a"), tokens...)
	if len(got) != 2 || got[tokens[1]] != values[1] || got[tokens[2]] != values[2] {
		t.Errorf("restored %v", got)
	}
	if log := p.log.String(); !strings.Contains(log, "damaged") || strings.Contains(log, "@") {
		t.Errorf("log: %q", log)
	}
}

// restoreValues is restores without checking Disclosed.
func restoreValues(t testing.TB, v *vault.Vault, tokens ...vault.Token) map[vault.Token]vault.Value {
	t.Helper()
	got, err := v.Restore(t.Context(), "", tokens)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func change(t testing.TB, db *store.DB, query string, args ...any) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), query, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConcurrentTokenize(t *testing.T) {
	p := newTestDir(t)
	p.log = nil
	silent := func(c *vault.Config) { c.Log = nil }
	vaults := []*vault.Vault{p.open(t, "a", silent), p.open(t, "a", silent), p.open(t, "b", silent)}
	var all sync.WaitGroup
	for i, v := range vaults {
		for g := range 4 {
			all.Go(func() {
				session := string(rune('a' + g))
				for range 20 {
					tokens, err := v.Tokenize(t.Context(), session, variety)
					if err != nil {
						t.Errorf("%d: %v", i, err)
						return
					}
					got, err := v.Restore(t.Context(), session, tokens)
					for k, token := range tokens {
						if got[token] != variety[k] {
							t.Errorf("%s gives %q, want %q; %v", token, got[token].Text, variety[k].Text, err)
						}
					}
				}
			})
		}
	}
	all.Wait()
	if diff := cmp.Diff(tokenize(t, vaults[0], "", variety...), tokenize(t, vaults[1], "", variety...)); diff != "" {
		t.Error(diff)
	}
}
