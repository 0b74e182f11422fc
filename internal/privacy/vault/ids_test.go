package vault_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

var short = regexp.MustCompile(`^\[EMAIL_[0-9a-hjkmnp-tv-z]{8}\]$`)

func emails(n int) (all []vault.Value) {
	for i := range n {
		all = append(all, email(fmt.Sprintf("ada%d@example.com", i)))
	}
	return all
}

// TestTokensAreShort tokenizes a table, whose tokens a model reads and writes.
func TestTokensAreShort(t *testing.T) {
	p := newTestDir(t)
	seen, table := map[vault.Token]bool{}, ""
	for i, one := range tokenize(t, p.open(t, "a"), "", emails(2000)...) {
		if seen[one] || !short.MatchString(string(one)) || !strings.ContainsAny(string(one)[7:], "0123456789") ||
			strings.Trim(string(one)[7:], "0123456789]") == "" {
			t.Fatalf("%s", one)
		}
		if seen[one] = true; i < 55 {
			table += string(one) + "\n"
		}
	}
	if n := tokens.Count(table); n > 55*11 {
		t.Errorf("55 tokens are %d tokens of a model", n)
	}
}

func TestLongTokensStayValid(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a")
	var long []vault.Token
	values := []vault.Value{email("ada@example.com"), email("Ada@example.com")}
	for _, one := range values {
		token, err := vault.TokenizeLong(t.Context(), v, "", one)
		if err != nil {
			t.Fatal(err)
		}
		long = append(long, token)
	}
	if len(long[0]) != len("[EMAIL_k7q2m9x4d3w8n5rt]") || len(long[1]) != len(long[0])+4 {
		t.Fatalf("%q", long)
	}
	later := p.open(t, "a")
	for i, token := range tokenize(t, later, "s", values...) {
		if token != long[i] {
			t.Errorf("%s has the new token %s", long[i], token)
		}
	}
	added := tokenize(t, later, "", email("ADA@example.com"))[0]
	if !short.MatchString(string(added)) {
		t.Errorf("%s is not short", added)
	}
	if got := restores(t, p.open(t, "a"), "s", append(long, added)...); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// TestProcessesAgreeOnTokens has several processes tokenize the same values in different orders.
func TestProcessesAgreeOnTokens(t *testing.T) {
	p := newTestDir(t)
	var values []vault.Value
	for _, name := range []string{"ada@example.com", "Ada@example.com", "ADA@example.com", "aDa@example.com"} {
		values = append(values, email(name))
	}
	var all [4][]vault.Token
	var work sync.WaitGroup
	for i := range all {
		v := p.open(t, "a")
		work.Go(func() {
			for n := range values {
				all[i] = append(all[i], tokenize(t, v, "", values[(n+i)%len(values)])...)
			}
		})
	}
	work.Wait()
	seen := map[vault.Token]vault.Value{}
	for i := range all {
		for n, token := range all[i] {
			if was, ok := seen[token]; ok && was != values[(n+i)%len(values)] {
				t.Errorf("%s is the token of two values", token)
			}
			seen[token] = values[(n+i)%len(values)]
		}
	}
	if len(seen) != len(values) {
		t.Errorf("%d values have %d tokens", len(values), len(seen))
	}
}

func TestGuessedTokensAreLimited(t *testing.T) {
	p := newTestDir(t)
	v := p.open(t, "a", func(c *vault.Config) { c.MaxOnRequest = 100 })
	mine := tokenize(t, v, "", email("ada@example.com"))[0]
	var guesses []vault.Token
	for i := range 60 {
		guesses = append(guesses, vault.Token(fmt.Sprintf("[EMAIL_a00000%02d]", i)))
	}
	long := vault.Token("[EMAIL_" + strings.Repeat("0", 16) + "]")
	for i := range 200 {
		if _, err := v.Restore(t.Context(), "", []vault.Token{mine, long}); err != nil {
			t.Fatalf("known and long tokens are counted, %d: %v", i, err)
		}
	}
	if got, err := v.Restore(t.Context(), "", append(guesses, mine)); err != nil || len(got) != 1 {
		t.Fatalf("%v %v", got, err)
	}
	if _, err := v.Restore(t.Context(), "", guesses); fault.KindOf(err) != fault.Exhausted {
		t.Errorf("120 guesses: %v", err)
	}
	if got, err := v.Restore(t.Context(), "", []vault.Token{mine}); err != nil || len(got) != 1 {
		t.Errorf("a known token after guesses: %v %v", got, err)
	}
	p.now = p.now.Add(time.Hour)
	if _, err := v.Restore(t.Context(), "", guesses); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

func TestWordsAndNumbersAreNoTokens(t *testing.T) {
	for text, want := range map[string]int{
		"[TICKET_20261128]": 0, "[ERROR_extended]": 0, "[EMAIL_withheld]": 0, "[EMAIL_k7q2m9x]": 0,
		"[EMAIL_k7q2m9x4]": 1, "[EMAIL_k7q2m9x4d]": 1, "[EMAIL_k7q2m9x4d3w8n5rt]": 1, "[EMAIL_0000000000000000]": 1, "[~EMAIL_k7q2m9x4]": 1,
	} {
		if got := vault.FindTokens(text); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
