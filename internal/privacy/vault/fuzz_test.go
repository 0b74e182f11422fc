package vault_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// types have different canonical forms; the last is unknown.
var types = []detect.Type{detect.Email, detect.Phone, detect.IBAN, detect.APIKey, detect.Name, "ORDER_NUMBER"}

func FuzzRoundTrip(f *testing.F) {
	for i, v := range variety[:len(variety)-1] {
		f.Add(v.Text, uint8(i), v.Number, "s")
	}
	p := newTestDir(f)
	db := p.db(f, "a")
	roomy := func(c *vault.Config) { c.DB, c.MaxRecords, c.MaxNew = db, 1<<40, 1<<40 }
	a, b := p.open(f, "a", roomy), p.open(f, "b")
	f.Fuzz(func(t *testing.T, text string, typ uint8, number bool, session string) {
		value := vault.Value{Type: types[int(typ)%len(types)], Text: text, Number: number}
		one := tokenize(t, a, session, value, email("ada@example.com"), value)
		if one[0] != one[2] || one[0].Type() != value.Type {
			t.Fatalf("%q", one)
		}
		other := p.open(t, "a", roomy) // empty cache
		if second := tokenize(t, other, session, value); second[0] != one[0] {
			t.Fatalf("%s, and then %s", one[0], second[0])
		}
		too := len(text) > 64<<10
		for _, v := range []*vault.Vault{a, other} {
			if got, ok := restores(t, v, session, one...)[one[0]]; ok == too || !too && got != value {
				t.Fatalf("%v restored as %v", value, got)
			}
		}
		if got := restores(t, b, "", one...); len(got) != 0 {
			t.Fatalf("another tenant restores %v", got)
		}
	})
}

func FuzzFindTokens(f *testing.F) {
	for _, s := range []string{
		"", "[", "]", "[EMAIL_k7q2m9x4d3w8n5rt]", "x[~EMAIL_k7q2m9x4d3w8n5rt]y", "[[EMAIL_k7q2m9x4d3w8n5rt]]", "[~~~",
		"[A_A_0000000000000000]",
		"[EMAIL_withheld]", "[EMAIL_K7Q2M9X4D3W8N5RT]", "[EMAIL_k7q2m9x4d3w8n5rt][~~PHONE_1_k7q2m9x4d3w8n5rtk7q2]", strings.Repeat("[A",
			1000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want []vault.TokenSpan
		for at := 0; at < len(text); at++ {
			if n, foreign := slow(text[at:]); n > 0 {
				want = append(want, vault.TokenSpan{Start: at, End: at + n, Foreign: foreign})
				at += n - 1
			}
		}
		if diff := cmp.Diff(want, vault.FindTokens(text)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// slow parses a token at the beginning of s with a second algorithm.
func slow(s string) (n, foreign int) {
	end := strings.IndexByte(s, ']')
	if end < 0 || s[0] != '[' {
		return 0, 0
	}
	inner := strings.TrimLeft(s[1:end], "~")
	under := strings.LastIndexByte(inner, '_')
	if under < 2 || under > 32 || len(inner)-under-1 < 16 || len(inner)-under-1 > 64 || inner[0] < 'A' || inner[0] > 'Z' {
		return 0, 0
	}
	if strings.Trim(inner[:under], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || strings.Trim(inner[under+1:],
		"0123456789abcdefghjkmnpqrstvwxyz") != "" {
		return 0, 0
	}
	return end + 1, end - 1 - len(inner)
}

// FuzzForgedToken checks that only tokens that were created are restored.
func FuzzForgedToken(f *testing.F) {
	p := newTestDir(f)
	a, b := p.open(f, "a"), p.open(f, "b")
	mine := map[vault.Token]bool{}
	for _, token := range tokenize(f, a, "s", variety...) {
		mine[token] = true
		f.Add(string(token))
	}
	for _, token := range tokenize(f, b, "s", variety...) {
		f.Add(string(token))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens := []vault.Token{vault.Token(text)}
		for _, at := range vault.FindTokens(text) {
			tokens = append(tokens, vault.Token(text[at.Start:at.End]))
		}
		for token := range restores(t, a, "s", tokens...) {
			if !mine[token] {
				t.Fatalf("%q is restored but was never created", token)
			}
		}
		if got := restores(t, a, "other", tokens...); len(got) != 0 {
			t.Fatalf("a session restores %v of another session", got)
		}
	})
}
