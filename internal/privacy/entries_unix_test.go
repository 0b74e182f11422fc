//go:build unix

package privacy_test

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/lexicon"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// entry is a function that takes a text, or values of a text. open prepares one use of it.
type entry struct {
	name    string
	only    map[string]bool // inputs by name; nil: all
	repeats bool            // a second use does the same
	open    func(b *testing.B, text string) func()
	parts   func(b *testing.B, size int, all string) func() // instead of open: each use takes the next part of a text
}

// values has the inputs with many different values.
var values = named("mail", "table", "strings", "phones", "assigned", "addresses")

var entries = slices.Concat(detectEntries, knownEntries, vaultEntries, redactEntries)

var detectEntries = []entry{
	onText("detect.Scan", func(s *detect.Scanner, text string) { s.Scan(text) }),
	onText("detect.Value", func(s *detect.Scanner, text string) { s.Value("phone", text) }),
	onText("detect.Detect", func(s *detect.Scanner, text string) { s.Detect("", text) }),
	onText("detect.Table", func(s *detect.Scanner, text string) { s.Table(text) }),
	onText("detect.Person", func(s *detect.Scanner, text string) { s.Person("name", text, len(text)/2, len(text)/2+1) }),
	onText("detect.Squeeze", func(_ *detect.Scanner, text string) { detect.Squeeze(text) }),
	onText("detect.Gap", func(_ *detect.Scanner, text string) { detect.Gap(text) }),
	onText("detect.SameKey", func(_ *detect.Scanner, text string) { detect.SameKey(text, strings.ToUpper(text)) }),
	onText("lexicon.IsEnglish", func(_ *detect.Scanner, text string) { lexicon.IsEnglish(text) }),
	onText("detect.Explain", func(s *detect.Scanner, text string) { s.Explain(text) }),
	onText("detect.Stream", func(s *detect.Scanner, text string) {
		st := s.Stream()
		for piece := range slices.Chunk([]byte(text), 1000) {
			st.Write(string(piece))
		}
		st.Close()
	}),
	onText("detect.Resolve", func(_ *detect.Scanner, text string) {
		var all []detect.Finding
		for i := range len(text) / 8 {
			all = append(all, detect.Finding{Type: detect.Types[i%17], Start: i * 8, End: i*8 + i%31 + 2, Score: float64(i%7) / 7})
		}
		detect.Resolve(all, text)
	}),
	onText("encoded.Find", func(s *detect.Scanner, text string) { finder(s).Find(text) }),
	onText("encoded.Across", func(s *detect.Scanner, text string) {
		var pieces []string
		for _, p := range strings.SplitAfter(text, ",") {
			for piece := range slices.Chunk([]byte(p), 40) {
				pieces = append(pieces, string(piece))
			}
		}
		finder(s).Across(pieces)
	}),
}

func finder(s *detect.Scanner) encoded.Finder { return encoded.Finder{Scan: s.Scan, Whole: s.Scan} }

func onText(name string, f func(s *detect.Scanner, text string)) entry {
	return entry{name: name, repeats: true, open: func(b *testing.B, text string) func() {
		s := scanner(b)
		return func() { f(s, text) }
	}}
}

func scanner(b *testing.B) *detect.Scanner {
	s, err := detect.New(detect.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

var knownEntries = []entry{
	{name: "known.Add", only: values, repeats: true, open: func(b *testing.B, text string) func() {
		all := valuesIn(b, text)
		return func() { indexOf(all) }
	}},
	onIndex("known.Find", func(x *known.Index, text string) { x.Find(text) }),
	onIndex("known.FindSqueezed", func(x *known.Index, text string) { x.FindSqueezed(text, nil) }),
	onIndex("known.FindJoined", func(x *known.Index, text string) { x.FindJoined(text, nil) }),
	onIndex("known.CanHold", func(_ *known.Index, text string) { known.CanHold(text) }),
}

// onIndex searches parts of a text for the values of all of it. With those of the part only, a small
// index is in the caches of the processor, and the time for a value found grows fourfold until it is not.
func onIndex(name string, f func(x *known.Index, text string)) entry {
	return entry{name: name, repeats: true, parts: func(b *testing.B, size int, all string) func() {
		x, rest := indexOf(valuesIn(b, all)), all
		return func() {
			f(x, rest[:min(size, len(rest))])
			if rest = rest[min(size, len(rest)):]; len(rest) < size {
				rest = all
			}
		}
	}}
}

func indexOf(all []vault.Value) *known.Index {
	x := known.New(100_000)
	for _, v := range all {
		x.Add(v.Type, v.Text)
	}
	return x
}

// valuesIn returns the values that are detected in a text.
func valuesIn(b *testing.B, text string) (all []vault.Value) {
	for _, f := range scanner(b).Detect("", text) {
		if v := text[f.Start:f.End]; len(v) < 1000 {
			all = append(all, vault.Value{Type: f.Type, Text: v})
		}
	}
	return all
}

// used is a vault with the tokens of the values of a text.
type used struct {
	*vault.Vault
	values []vault.Value
	tokens []vault.Token
	text   string // with tokens instead of values
}

var vaultEntries = []entry{
	{name: "vault.FindTokens", repeats: true, open: func(_ *testing.B, text string) func() { return func() { vault.FindTokens(text) } }},
	{name: "vault.Tokenize", only: values, open: func(b *testing.B, text string) func() {
		all, v := valuesIn(b, text), newVault(b)
		return func() { must(v.Tokenize(b.Context(), "", all))(b) }
	}},
	{name: "vault.Index.Add", only: values, open: func(b *testing.B, text string) func() {
		all, v := valuesIn(b, text), newVault(b)
		return func() { v.Index.Add(all) }
	}},
	onVault("vault.Restore", func(b *testing.B, u used) { must(u.Restore(b.Context(), "", u.tokens))(b) }),
	onVault("vault.Disclosed", func(b *testing.B, u used) { must(u.Disclosed(b.Context(), "", u.tokens))(b) }),
	onVault("vault.Index.Find", func(_ *testing.B, u used) { u.Index.Find(u.text) }),
	onVault("vault.Index.FindSqueezed", func(_ *testing.B, u used) { u.Index.FindSqueezed(u.text, nil) }),
	onVault("vault.Index.Refresh", func(b *testing.B, u used) { must(0, u.Index.Refresh(b.Context()))(b) }),
	onVault("vault.Each", func(b *testing.B, u used) { must(u.Each(b.Context(), 0, func(vault.Value) {}))(b) }),
	onVault("vault.Export", func(b *testing.B, u used) { must(0, u.Export(b.Context(), io.Discard))(b) }),
	onVault("vault.Sweep", func(b *testing.B, u used) { must(0, u.Sweep(b.Context()))(b) }),
	onVault("vault.Rotate", func(b *testing.B, u used) { must(0, u.Rotate(b.Context()))(b) }),
}

func onVault(name string, f func(b *testing.B, u used)) entry {
	return entry{name: name, only: values, open: func(b *testing.B, text string) func() {
		u := used{Vault: newVault(b), values: valuesIn(b, text), text: text}
		u.tokens, _ = u.Tokenize(b.Context(), "", u.values)
		return func() { f(b, u) }
	}}
}

func must[T any](_ T, err error) func(b *testing.B) {
	return func(b *testing.B) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

func newVault(b *testing.B) *vault.Vault {
	db, err := store.Open(context.Background(), b.TempDir()+"/tenant.db", []store.Migration{{Number: 1, Name: "vault", SQL: vault.Tables}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	now := time.Now() // it stands still: a large text takes a second, after which the vault reads new values again
	return vault.New(vault.Config{
		DB:           db,
		Tenant:       owner,
		Master:       vault.NewKeyMaster(make([]byte, 32)),
		MaxRecords:   1 << 30,
		MaxNew:       1 << 30,
		MaxOnRequest: 1 << 30,
		Now:          func() time.Time { return now },
	})
}

var owner = func() tenant.ID {
	id, err := tenant.Parse("ada")
	if err != nil {
		panic(err)
	}
	return id
}()

var crm = tool.Ref{Server: "crm", Tool: "add"}

var redactEntries = []entry{
	onGate("redact.Redact", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		must(e.Redact(b.Context(), redact.Message{Body: text, CountTokens: true}))(b)
	}),
	onGate("redact.Redact JSON", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		must(e.Redact(b.Context(), redact.Message{Body: map[string]any{"output": strings.SplitAfter(text, ",")}, CountTokens: true}))(b)
	}),
	onGate("redact.Redact page", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		must(e.Redact(b.Context(), redact.Message{Body: redact.PagePlaceholder,
			Page: &redact.Page{Text: text, Start: len(text) / 4, End: len(text) / 2}}))(b)
	}),
	onGate("redact.Tokenize", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		must(e.Tokenize(b.Context(), "note", text))(b)
	}),
	onGate("redact.RevealToPerson", redact.Egress, func(b *testing.B, e *redact.Gate,
		text string) {
		must(e.RevealToPerson(b.Context(), text))(b)
	}),
	onGate("redact.ContainsPrivate", redact.Egress, func(_ *testing.B, e *redact.Gate, text string) { e.ContainsPrivate("", text) }),
	onGate("redact.Truncate", redact.Egress, func(_ *testing.B, e *redact.Gate, text string) { e.Truncate(text, len(text)-1) }),
	onGate("redact.Neutralize", redact.Egress, func(_ *testing.B, e *redact.Gate, text string) { e.Neutralize(text) }),
	onGate("redact.Explain", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		_, _, err := e.Explain(b.Context(), text)
		must(0, err)(b)
	}),
	onGate("redact.Ingester.Text", redact.Egress, ingest),
	onGate("redact.Ingester.Text strict", redact.Strict, ingest),
	onGate("redact.Ingester.JSON", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		raw, _ := json.Marshal(map[string]string{"result": text})
		must(e.Ingester().JSON(b.Context(), raw))(b)
		e.Ingester().Wait()
	}),
	onGate("redact.Ingester.LargePart", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		must(e.Ingester().LargePart(b.Context(), text, true))(b)
	}),
	onGate("redact.Restorer.Args", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		raw, _ := json.Marshal(map[string]string{"note": text})
		must(e.Restorer().Args(b.Context(), crm, raw))(b)
	}),
	onGate("redact.Restorer.Args JSON", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		must(e.Restorer().Args(b.Context(), crm, json.RawMessage(text)))(b)
	}),
	onGate("redact.Restorer.URI", redact.Egress, func(b *testing.B, e *redact.Gate,
		text string) {
		must(e.Restorer().URI(b.Context(), crm, text))(b)
	}),
	onTokens("redact.Restorer.Text", func(b *testing.B, e *redact.Gate, text string) {
		must(e.Restorer().Text(b.Context(), redact.ToCode, text))(b)
	}),
	onTokens("redact.Restorer.Variables", func(b *testing.B, e *redact.Gate, text string) {
		raw, _ := json.Marshal(map[string]string{"note": text})
		must(e.Restorer().Variables(b.Context(), raw))(b)
	}),
	onTokens("redact.Restorer.Lookup", func(b *testing.B, e *redact.Gate, text string) {
		_, _, err := e.Restorer().Lookup(b.Context(), text)
		must(0, err)(b)
	}),
	onTokens("redact.Restorer.Args", func(b *testing.B, e *redact.Gate, text string) {
		raw, _ := json.Marshal(map[string]string{"note": text})
		must(e.Restorer().Args(b.Context(), crm, raw))(b)
	}),
	onTokens("redact.Tokens.Detokenize", func(b *testing.B, e *redact.Gate,
		text string) {
		must(e.Tokens().Detokenize(b.Context(), text))(b)
	}),
	onTokens("redact.Redact again", func(b *testing.B, e *redact.Gate, text string) { must(e.Redact(b.Context(), text))(b) }),
	onGate("redact.Tokens.Sanitize", redact.Egress, func(b *testing.B, e *redact.Gate, text string) {
		_, _, err := e.Tokens().Sanitize(b.Context(), text)
		must(0, err)(b)
	}),
	onGate("redact.Tokens.Promote", redact.Strict, func(b *testing.B, e *redact.Gate, text string) {
		local, err := e.Ingester().Text(b.Context(), text)
		must(e.Tokens().Promote(b.Context(), local))(b)
		must(0, err)(b)
	}),
	{name: "redact.Redact of the model's text", open: func(b *testing.B, text string) func() {
		raw, _ := json.Marshal(map[string]string{"code": text})
		e := gate(b, redact.Egress, redact.Owner{ModelInput: redact.NewModelInput(raw)})
		return func() { must(e.Redact(b.Context(), text))(b) }
	}},
}

func ingest(b *testing.B, e *redact.Gate, text string) {
	must(e.Ingester().Text(b.Context(), text))(b)
	e.Ingester().Wait()
}

func onGate(name string, mode redact.Mode, f func(b *testing.B, e *redact.Gate, text string)) entry {
	return entry{name: name, open: func(b *testing.B, text string) func() {
		e := gate(b, mode, redact.Owner{Local: local(mode)})
		return func() { f(b, e, text) }
	}}
}

// onTokens is onGate for text with tokens instead of values.
func onTokens(name string, f func(b *testing.B, e *redact.Gate, text string)) entry {
	return entry{name: name, only: values, open: func(b *testing.B, text string) func() {
		e := gate(b, redact.Egress, redact.Owner{})
		text, err := e.Tokenize(b.Context(), "", text)
		must(0, err)(b)
		return func() { f(b, e, text) }
	}}
}

func local(mode redact.Mode) *redact.LocalTokens {
	if mode == redact.Strict {
		return redact.NewLocalTokens()
	}
	return nil
}

func gate(b *testing.B, mode redact.Mode, o redact.Owner) *redact.Gate {
	r, err := redact.New(redact.Config{Mode: mode, Scanner: scanner(b), Filter: guardrail.NewFilter(true, true)})
	must(0, err)(b)
	o.Tenant, o.Vault = owner, newVault(b)
	return r.For(o)
}
