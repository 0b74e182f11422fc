package redact_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// rig has the gates of two tenants.
type rig struct {
	rules      *redact.Rules
	ada, bob   redact.Owner
	crossings  []redact.Transfer
	unrecorded error // result of Record
}

func newRig(t testing.TB, cfg redact.Config) *rig {
	t.Helper()
	r := &rig{}
	cfg.Record = func(_ context.Context, c redact.Transfer) error {
		r.crossings = append(r.crossings, c)
		return r.unrecorded
	}
	var err error
	rules := detect.Config{Patterns: []detect.Pattern{{Type: "BADGE", Expr: `\bB-\d{6}\b`}}}
	if _, measured := t.(*testing.B); measured { // a custom pattern costs more than all built-in rules
		rules = detect.Config{}
	}
	if cfg.Scanner, err = detect.New(rules); err != nil {
		t.Fatal(err)
	}
	if r.rules, err = redact.New(cfg); err != nil {
		t.Fatal(err)
	}
	r.ada, r.bob = owner(t, "ada"), owner(t, "bob")
	return r
}

func owner(t testing.TB, name string) redact.Owner {
	t.Helper()
	id, err := tenant.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return redact.Owner{Tenant: id, Vault: vaultIn(t, t.TempDir(), id)}
}

// vaultIn opens the vault in a directory as one process does.
func vaultIn(t testing.TB, dir string, id tenant.ID) *vault.Vault {
	t.Helper()
	db, err := store.Open(context.Background(), dir+"/tenant.db", []store.Migration{{Number: 1, Name: "vault", SQL: vault.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	master, err := vault.OpenMaster(context.Background(), "file", dir)
	if err != nil {
		t.Fatal(err)
	}
	return vault.New(vault.Config{DB: db, Tenant: id, Master: master})
}

func (r *rig) gate() *redact.Gate { return r.rules.For(r.ada) }

// in returns the gate of Ada in a session.
func (r *rig) in(session string) *redact.Gate {
	o := r.ada
	o.Session = session
	return r.rules.For(o)
}

func redacted(t testing.TB, e *redact.Gate, v any) string {
	t.Helper()
	s, err := e.Redact(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _, err := s.Content()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var token = regexp.MustCompile(`\[(~*)([A-Z_]+)_[0-9a-z]{8,64}\]`)

// shown abbreviates the tokens in a text.
func shown(text string) string { return token.ReplaceAllString(text, "<$1$2>") }

func TestAnswersCountTheirTokens(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	for body, want := range map[string]string{
		`{"to":"ada@example.com","cc":["ada@example.com","bob@example.com"],"ssn":123456789}`: `{"to":"<EMAIL>","cc":["<EMAIL>","<EMAIL>"],"ssn":"<SSN>","private":"3 values shown as tokens: EMAIL 2, SSN 1; restore_pii is refused"}`,
		`{"to":"ada@example.com"}`: `{"to":"<EMAIL>","private":"1 value shown as a token: EMAIL 1; restore_pii is refused"}`,
		`{"n":1}`:                  `{"n":1}`,
		`["ada@example.com"]`:      `["<EMAIL>"]`,
	} {
		got := redacted(t, r.gate(), redact.Message{Body: json.RawMessage(body), CountTokens: true})
		if d := cmp.Diff(want, shown(got)); d != "" {
			t.Error(d)
		}
	}
	if got := redacted(t, r.gate(), redact.Message{Body: `{"to":"ada@example.com"}`, CountTokens: true}); shown(got) != `{"to":"<EMAIL>"}` {
		t.Error("a key was added to the text of a file: " + got)
	}
	off := newRig(t, redact.Config{Mode: redact.Off})
	if got := redacted(t, off.gate(), redact.Message{Body: map[string]string{"to": "ada@example.com"},
		CountTokens: true}); got != `{"to":"ada@example.com"}` {
		t.Error(got)
	}
}

func TestRedactAndRestore(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	for name, c := range map[string]struct {
		body any
		want string
	}{
		"a text":             {"mail ada@example.com today", "mail <EMAIL> today"},
		"an object":          {map[string]any{"to": "ada@example.com", "n": 5}, `{"n":5,"to":"<EMAIL>"}`},
		"a key of an object": {map[string]any{"ada@example.com": true}, `{"<EMAIL>":true}`},
		"a number":           {json.RawMessage(`{"ssn": 123456789, "n": 223456789}`), `{"ssn":"<SSN>","n":223456789}`},
		"a list under a key": {json.RawMessage(`{"phones":["(212) 555-0123"]}`), `{"phones":["<PHONE>"]}`},
		"a name by its key":  {json.RawMessage(`{"first_name":"Grace"}`), `{"first_name":"<NAME>"}`},
		"escapes":            {json.RawMessage(`{"a":"x\nada@example.com\t\u0061da@example.com"}`), `{"a":"x\n<EMAIL>\t<EMAIL>"}`},
		"JSON in a string": {map[string]any{"body": `{"ssn": 123456789, "to": "ada@example.com"}`},
			`{"body":"{\"ssn\": \"<SSN>\", \"to\": \"<EMAIL>\"}"}`},
		"JSON in JSON in JSON": {map[string]any{"a": `{"b":"{\"to\":\"ada@example.com\"}"}`},
			`{"a":"{\"b\":\"{\\\"to\\\":\\\"<EMAIL>\\\"}\"}"}`},
		"a text that is JSON":   {`{"ssn": 123456789}`, `{"ssn": "<SSN>"}`},
		"what an operator says": {"B-123456", "<BADGE>"},
		"base64":                {"YWRhQGV4YW1wbGUuY29t", "<EMAIL>"},
		"hexadecimal":           {"616461406578616d706c652e636f6d", "<EMAIL>"},
		"a URL":                 {"https://x.example/?q=ada%40example.com&r=1", "https://x.example/?q=<EMAIL>&r=1"},
		"lines of a table": {map[string]any{"output": []string{"id,full_name,city\r", "1,Ada Lovelace,London\r",
			"2,Grace Hopper,Rome\r"}}, `{"output":["id,full_name,city\r","1,<NAME>,London\r","2,<NAME>,Rome\r"]}`},
		"lines of a data frame": {[]string{"      full_name  n", "0  Ada Lovelace  1", "1  Grace Hopper  2"},
			`["      full_name  n","0  <NAME>  1","1  <NAME>  2"]`},
		"a label in each line": {[]string{"first_name: Ada", "name: Ada Lovelace"}, `["first_name: <NAME>","name: <NAME>"]`},
		"a name without a key": {[]string{"Hello Ida Rhodes", "{'full_name': 'Ida Rhodes'}", "Bye IDA RHODES"},
			`["Hello <NAME>","{'full_name': '<NAME>'}","Bye <NAME>"]`},
		"a URL of JSON":  {"%7B%22ssn%22%3A%20%22196-49-3942%22%7D", "%7B%22ssn%22%3A%20%22<SSN>%22%7D"},
		"nothing":        {map[string]any{"success": true, "result": []int{1, 2}}, `{"result":[1,2],"success":true}`},
		"no text at all": {"", ""},
		"a traceback": {"File \"<code>\", line 1\nValueError: no 4111 1111 1111 1111",
			"File \"<code>\", line 1\nValueError: no <CREDIT_CARD>"},
	} {
		t.Run(name, func(t *testing.T) {
			got := redacted(t, r.gate(), c.body)
			if d := cmp.Diff(c.want, shown(got)); d != "" {
				t.Fatal(d)
			}
			if again := redacted(t, r.gate(), got); again != got {
				t.Errorf("redacted again:\n%s", again)
			}
			back, err := r.gate().Restorer().Text(t.Context(), redact.ToFile, got)
			if whole := unredacted(t, c.body); err != nil || back != strings.ReplaceAll(whole, `\u0061`, "a") {
				t.Errorf("restored:\n%s, %v\nwant\n%s", back, err, whole)
			}
		})
	}
}

// unredacted returns the outbound text of body in mode Off.
func unredacted(t *testing.T, body any) string {
	off, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		t.Fatal(err)
	}
	return redacted(t, off.For(redact.Owner{}), body)
}

func TestSplitValueIsReplaced(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	if _, err := r.gate().Ingester().Text(t.Context(), `{"name":"Ada `+
		`Lovelace","code":"B-123456","mail":"ada@example.com","db":"postgres://ada:Nm5Kq2xg3ODg3@db.example.com/shop"}`); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ output, want []string }{
		"split":                {[]string{"from ada@exam", "ple.com"}, []string{"from <EMAIL>", ""}},
		"beside a line break":  {[]string{"from\tada@exam", "ple.com\nand"}, []string{"from\t<EMAIL>", "\nand"}},
		"a name":               {[]string{"Ada Lovelace came"}, []string{"<NAME> came"}},
		"a name in two":        {[]string{"Ada Love", "lace"}, []string{"<NAME>", ""}},
		"a name among others":  {[]string{"and", "Ada Love", "lace", "and"}, []string{"and", "<NAME>", "", "and"}},
		"a part is a value":    {[]string{"postgres://ada:Nm5Kq2x", "g3ODg3@db.example.com/shop"}, []string{"postgres://<EMAIL>", "/shop"}},
		"lines that are whole": {[]string{"bob@corp.example", "Next line"}, []string{"<EMAIL>", "Next line"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct{ Output []string }
			if err := json.Unmarshal([]byte(redacted(t, r.gate(), map[string]any{"output": c.output})), &got); err != nil {
				t.Fatal(err)
			}
			for i := range got.Output {
				got.Output[i] = shown(got.Output[i])
			}
			if d := cmp.Diff(c.want, got.Output); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRestoreRequiresDisclosure(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	inA := redacted(t, r.in("a"), "ada@example.com")
	outside := redacted(t, r.gate(), "grace@example.com")
	forged := strings.Replace(inA, inA[len(inA)-3:], "00]", 1)
	for name, c := range map[string]struct {
		gate *redact.Gate
		text string
		good bool
	}{
		"in its session":              {r.in("a"), inA, true},
		"in another session":          {r.in("b"), inA, false},
		"outside of sessions":         {r.gate(), inA, true},
		"given outside, in a session": {r.in("b"), outside, true},
		"to another tenant":           {r.rules.For(r.bob), inA, false},
		"to nobody":                   {r.rules.For(redact.Owner{}), inA, false},
		"forged":                      {r.in("a"), forged, false},
		"of another type":             {r.in("a"), strings.Replace(inA, "EMAIL", "PHONE", 1), false},
		"marked as foreign":           {r.in("a"), strings.Replace(inA, "[", "[~", 1), false},
		"in a token":                  {r.in("a"), "[EMAIL_" + inA + "]", true},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := c.gate.Restorer().Text(t.Context(), redact.ToFile, c.text)
			if err != nil || strings.Contains(back, "@") != c.good {
				t.Errorf("%s is %s, %v", c.text, back, err)
			}
		})
	}
}

// A server could send a token that was seen elsewhere, to have it restored.
func TestForeignTokensAreMarked(t *testing.T) {
	for _, mode := range []redact.Mode{redact.Egress, redact.Strict} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, redact.Config{Mode: mode, Flows: []redact.Flow{{To: "*", Decision: redact.Allow}}})
			r.ada.Local = redact.NewLocalTokens()
			ours := redacted(t, r.gate(), "ada@example.com")
			text := `{"a":"` + ours + `","b":"\u005bEMAIL_aaaaaaaaaaaaaaaa]","c":"[~EMAIL_aaaaaaaaaaaaaaaa]","d":"[EMAIL_short]"}`
			res, err := r.gate().Ingester().Result(t.Context(),
				tool.Result{Structured: json.RawMessage(text), Parts: []tool.Part{{Kind: tool.Text, Text: ours}}})
			if err != nil {
				t.Fatal(err)
			}
			inside := string(res.Structured)
			if want := `{"a":"<~EMAIL>","b":"<~EMAIL>","c":"<~~EMAIL>","d":"[EMAIL_short]"}`; shown(inside) != want ||
				shown(res.Parts[0].Text) != "<~EMAIL>" {
				t.Errorf("ingested: %s and %s", inside, res.Parts[0].Text)
			}
			args, err := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "crm", Tool: "add"}, res.Structured)
			if want := strings.Replace(text, `\u005b`, "[", 1); err != nil || string(args) != want {
				t.Errorf("restored for a server: %s, %v", args, err)
			}
			// Through the model, which writes the text that it was shown.
			outside := redacted(t, r.gate(), json.RawMessage(inside))
			back, err := r.gate().Restorer().Variables(t.Context(), json.RawMessage(outside))
			if err != nil || string(back) != inside {
				t.Errorf("redacted: %s, restored: %s, %v", outside, back, err)
			}
		})
	}
}

func TestFlows(t *testing.T) {
	crm, web := tool.Ref{Server: "crm", Tool: "add"}, tool.Ref{Server: "web", Tool: "post"}
	flows := []redact.Flow{
		{Types: []detect.Type{detect.SSN}, To: "web.*", Decision: redact.Deny},
		{Types: []detect.Type{detect.Email}, To: "crm.*", Args: []string{"to"}, Decision: redact.Allow},
	}
	for name, c := range map[string]struct {
		mode redact.Mode
		ref  tool.Ref
		args string // EMAIL and SSN are replaced by tokens
		want string // "": denied
	}{
		"egress lets values go":      {redact.Egress, web, `{"x":"EMAIL"}`, `{"x":"ada@example.com"}`},
		"egress knows of values too": {redact.Egress, web, `{"x":"123-45-6789"}`, ""},
		"a rule against a type":      {redact.Egress, web, `{"x":"SSN"}`, ""},
		"which goes elsewhere":       {redact.Egress, crm, `{"x":"SSN"}`, `{"x":"123-45-6789"}`},
		"strict needs a rule":        {redact.Strict, web, `{"x":"EMAIL"}`, ""},
		"and has one":                {redact.Strict, crm, `{"to":"EMAIL"}`, `{"to":"ada@example.com"}`},
		"for one argument":           {redact.Strict, crm, `{"cc":"EMAIL"}`, ""},
		"deep in it": {redact.Strict, crm, `{"to":[{"a":"x EMAIL y"}]}`,
			`{"to":[{"a":"x ada@example.com y"}]}`},
		"and another":                            {redact.Strict, crm, `{"to":"EMAIL","x":"EMAIL"}`, ""},
		"strict does not judge what is no token": {redact.Strict, crm, `{"x":"192.0.2.77"}`, `{"x":"192.0.2.77"}`},
		"nothing":                                {redact.Strict, crm, `{}`, `{}`},
		"no JSON":                                {redact.Strict, crm, `{"x":`, `{"x":`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, redact.Config{Mode: c.mode, Flows: flows})
			stands := strings.NewReplacer("EMAIL", redacted(t, r.gate(), "ada@example.com"), "SSN", redacted(t, r.gate(), "123-45-6789"))
			got, err := r.gate().Restorer().Args(t.Context(), c.ref, json.RawMessage(stands.Replace(c.args)))
			if c.want == "" {
				if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "pii.flows: [{types: [") ||
					!r.crossings[len(r.crossings)-1].Denied {
					t.Fatalf("%s, %v, recorded %+v", got, err, r.crossings)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v", got, err)
			}
			for _, c := range r.crossings {
				b, _ := json.Marshal(c)
				if strings.Contains(string(b), "example.com") || strings.Contains(string(b), "6789") {
					t.Errorf("record contains the value: %s", b)
				}
			}
		})
	}
}

func TestFailedRecordStopsRestore(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress, Reveal: true})
	mail := redacted(t, r.gate(), "ada@example.com")
	r.unrecorded = fault.New(fault.Unavailable, "the disk is full")
	_, _, code := r.gate().Restorer().Lookup(t.Context(), "x = '"+mail+"'")
	_, vars := r.gate().Restorer().Variables(t.Context(), json.RawMessage(`{"x":"`+mail+`"}`))
	_, file := r.gate().Restorer().Text(t.Context(), redact.ToFile, mail)
	_, call := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "a", Tool: "b"}, json.RawMessage(`{"x":"`+mail+`"}`))
	_, model := r.gate().Redact(t.Context(), redact.Message{Body: mail, Reveal: true})
	for where, err := range map[string]error{"code": code, "variables": vars, "a file": file, "a call": call, "a model": model} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: values restored without record: %v", where, err)
		}
	}
}

func TestResolveTokensByMode(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	mail := redacted(t, r.gate(), "ada@example.com")
	source := "x = '" + mail + "' # [EMAIL_aaaaaaaaaaaaaaaa] [~EMAIL_aaaaaaaaaaaaaaaa]"
	got, _, err := r.gate().Restorer().Lookup(t.Context(), source)
	want := map[string]string{mail: "ada@example.com", "[~EMAIL_aaaaaaaaaaaaaaaa]": "[EMAIL_aaaaaaaaaaaaaaaa]"}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}

	ssn := redacted(t, r.gate(), json.RawMessage(`{"ssn":123456789}`))
	ssn = ssn[strings.Index(ssn, "[") : strings.Index(ssn, "]")+1]
	if _, numbers, err := r.gate().Restorer().Lookup(t.Context(), "x = '"+ssn+"' '"+mail+"'"); err != nil || len(numbers) != 1 ||
		numbers[0] != ssn {
		t.Errorf("numbers are %q, %v", numbers, err)
	}

	r = newRig(t, redact.Config{Mode: redact.Strict, Flows: []redact.Flow{{To: "crm.*", Decision: redact.Allow}}})
	mail = redacted(t, r.gate(), "ada@example.com")
	r.ada.Local = redact.NewLocalTokens()
	in := r.gate()
	got, _, err = in.Restorer().Lookup(t.Context(), "x = '"+mail+"'")
	local := got[mail]
	if err != nil || local == mail || shown(local) != "<EMAIL>" {
		t.Fatalf("%v, %v", got, err)
	}
	if res, err := in.Ingester().Text(t.Context(), "from ada@example.com"); err != nil || res != "from "+local {
		t.Errorf("ingested: %s, %v; want the local token %s", res, err, local)
	}
	if back := redacted(t, in, local); back != mail {
		t.Errorf("redacted: %s", back)
	}
	if args, err := in.Restorer().Args(t.Context(), tool.Ref{Server: "crm", Tool: "add"},
		json.RawMessage(`{"x":"`+local+`"}`)); err != nil || string(args) != `{"x":"ada@example.com"}` {
		t.Errorf("restored for a server: %s, %v", args, err)
	}
	for _, other := range []*redact.LocalTokens{nil, redact.NewLocalTokens()} {
		r.ada.Local = other
		if back := redacted(t, r.gate(), local); shown(back) != "<~EMAIL>" {
			t.Errorf("token of another interpreter redacted: %s", back)
		}
	}
}

// A name is detected under a key, and is then known everywhere.
func TestIngestedValueIsKnownAtOnce(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	name := strings.TrimSuffix(strings.TrimPrefix(redacted(t, r.gate(), json.RawMessage(`{"full_name":"Ada Lovelace"}`)), `{"full_name":"`),
		`"}`)
	if got := redacted(t, r.gate(), "Ada Lovelace came"); got != name+" came" {
		t.Errorf("%s, want token %s", got, name)
	}

	r = newRig(t, redact.Config{Mode: redact.Strict})
	r.ada.Local = redact.NewLocalTokens()
	first, err := r.gate().Ingester().Text(t.Context(), `{"full_name":"Ada Lovelace"}`)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.gate().Ingester().Text(t.Context(), "no Ada Lovelace here")
	if err != nil || first != `{"full_name":"`+strings.TrimSuffix(strings.TrimPrefix(second, "no "), " here")+`"}` {
		t.Errorf("code sees %s, then %s, %v", first, second, err)
	}
	r.ada.Local = nil
	if got := redacted(t, r.gate(), "Ada Lovelace is asked"); shown(got) != "<NAME> is asked" {
		t.Error(got)
	}
}

func TestPageKeepsValuesAcrossItsEnds(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	text := "first ada@example.com second grace@example.com third"
	for width := 3; width < len(text); width++ {
		var all strings.Builder
		for at := 0; at < len(text); at += width {
			page := redact.Page{Text: text, Start: at, End: min(at+width, len(text))}
			var got struct{ Content string }
			if err := json.Unmarshal([]byte(redacted(t, r.gate(),
				redact.Message{Body: map[string]string{"content": redact.PagePlaceholder}, Page: &page})), &got); err != nil {
				t.Fatal(err)
			}
			all.WriteString(got.Content)
		}
		if want := "first <EMAIL> second <EMAIL> third"; shown(all.String()) != want {
			t.Fatalf("in pages of %d: %s", width, shown(all.String()))
		}
	}
}

func TestTruncateKeepsValuesWhole(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	text := "mail ada@example.com now"
	for n := range len(text) {
		if got := r.gate().Truncate(text, n); len(got) > n || len(got) > 5 && len(got) < 20 {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
}

func TestNilVaultRedacts(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	if got := redacted(t, r.rules.For(redact.Owner{}), "mail ada@example.com"); got != "mail [EMAIL_withheld]" {
		t.Error(got)
	}
}

func TestRevealRequiresConfig(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		r := newRig(t, redact.Config{Mode: redact.Egress, Reveal: allowed})
		mail := redacted(t, r.gate(), "ada@example.com")
		s, err := r.gate().Redact(t.Context(), redact.Message{Body: map[string]string{"restored_text": "it is " + mail}, Reveal: true})
		text, _, _, _ := s.Content()
		if want := `{"restored_text":"it is ada@example.com"}`; allowed && (err != nil || text != want) || !allowed && err == nil {
			t.Errorf("allowed is %t: %s, %v", allowed, text, err)
		}
	}
}

func TestModeOffPassesText(t *testing.T) {
	r, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		t.Fatal(err)
	}
	if got := redacted(t, r.For(redact.Owner{}), "ada@example.com [EMAIL_aaaaaaaaaaaaaaaa]"); got != "ada@example.com "+
		"[EMAIL_aaaaaaaaaaaaaaaa]" {
		t.Error(got)
	}
	if _, _, _, err := (redact.Redacted{}).Content(); err == nil {
		t.Error("the zero Redacted has content")
	}
}

func TestZeroGateAndPartsRefuse(t *testing.T) {
	for name, e := range map[string]*redact.Gate{"zero Gate": new(redact.Gate), "gate of zero Rules": new(redact.Rules).
		For(redact.Owner{})} {
		calls := map[string]func(ctx context.Context) error{
			"Redact":         func(ctx context.Context) error { _, err := e.Redact(ctx, "x"); return err },
			"RevealToPerson": func(ctx context.Context) error { _, err := e.RevealToPerson(ctx, "x"); return err },
			"Tokenize":       func(ctx context.Context) error { _, err := e.Tokenize(ctx, "", "x"); return err },
			"ingest text":    func(ctx context.Context) error { _, err := e.Ingester().Text(ctx, "x"); return err },
			"ingest JSON":    func(ctx context.Context) error { _, err := e.Ingester().JSON(ctx, json.RawMessage(`1`)); return err },
			"ingest result":  func(ctx context.Context) error { _, err := e.Ingester().Result(ctx, tool.Result{}); return err },
			"restore text":   func(ctx context.Context) error { _, err := e.Restorer().Text(ctx, redact.ToFile, "x"); return err },
			"restore name":   func(ctx context.Context) error { _, err := e.Restorer().Name(ctx, redact.ToFile, "x"); return err },
			"restore variables": func(ctx context.Context) error {
				_, err := e.Restorer().Variables(ctx, json.RawMessage(`{"x":1}`))
				return err
			},
			"restore arguments": func(ctx context.Context) error {
				_, err := e.Restorer().Args(ctx, tool.Ref{Server: "a", Tool: "b"}, json.RawMessage(`{"x":1}`))
				return err
			},
			"look up tokens": func(ctx context.Context) error { _, _, err := e.Restorer().Lookup(ctx, "x"); return err },
			"sanitize":       func(ctx context.Context) error { _, _, err := e.Tokens().Sanitize(ctx, "x"); return err },
			"detokenize":     func(ctx context.Context) error { _, err := e.Tokens().Detokenize(ctx, "x"); return err },
			"promote":        func(ctx context.Context) error { _, err := e.Tokens().Promote(ctx, "x"); return err },
		}
		for call, run := range calls {
			if err := run(t.Context()); !errors.Is(err, redact.ErrNotRedacted) {
				t.Errorf("%s: %s returned %v", name, call, err)
			}
		}
		if e.CanReveal() || !e.Strict() || !e.ContainsPrivate("", "x") || e.Truncate("x", 10) != "" {
			t.Errorf("%s does not refuse", name)
		}
	}
}

// A flow applies to a known name without a key as well.
func TestFlowDeniesKnownValue(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress, Flows: []redact.Flow{{Types: []detect.Type{detect.Name}, To: "web.*",
		Decision: redact.Deny}}})
	if _, err := r.gate().Ingester().Text(t.Context(), `{"full_name":"Ada Lovelace"}`); err != nil {
		t.Fatal(err)
	}
	args := json.RawMessage(`{"q":"who is Ada Lovelace"}`)
	if _, err := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "web", Tool: "search"}, args); fault.KindOf(err) != fault.Denied {
		t.Errorf("the call was not denied: %v", err)
	}
	if _, err := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "crm", Tool: "find"}, args); err != nil {
		t.Error(err)
	}
}

// Python escapes letters outside of ASCII. The server receives the same values.
func TestFlowDeniesEscapedName(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress, Flows: []redact.Flow{{Types: []detect.Type{detect.Name}, To: "web.*", Decision: redact.Deny}}})
	args := json.RawMessage(`{"full_name":"Zo\u00eb Br\u00fcckner","note":"\\u00eb \ud83d\ude00 \ud83d \u0007\u2028\n"}`)
	if _, err := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "web", Tool: "search"}, args); fault.KindOf(err) != fault.Denied {
		t.Errorf("the call was not denied: %v", err)
	}
	got, err := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "crm", Tool: "add"}, args)
	if err != nil || r.crossings[len(r.crossings)-1].Types["NAME"] != 1 {
		t.Fatalf("recorded %+v, %v", r.crossings, err)
	}
	var before, after any
	if errors.Join(json.Unmarshal(args, &before), json.Unmarshal(got, &after)) != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the server receives %s", got)
	}
}

func TestSanitizeFindsStoredValues(t *testing.T) {
	r, dir := newRig(t, redact.Config{Mode: redact.Egress}), t.TempDir()
	if _, err := vaultIn(t, dir, r.ada.Tenant).Tokenize(t.Context(), "",
		[]vault.Value{{Type: detect.Name, Text: "Ada Lovelace"}}); err != nil {
		t.Fatal(err)
	}
	r.ada.Vault = vaultIn(t, dir, r.ada.Tenant) // as in another process
	text, tokens, err := r.gate().Tokens().Sanitize(t.Context(), "Ada Lovelace and [PHONE_aaaaaaaaaaaaaaaa] 12345678")
	if want := "<NAME> and <~PHONE> 12345678"; err != nil || shown(text) != want || len(tokens) != 1 {
		t.Errorf("%s, %v, %v", text, tokens, err)
	}
}

func TestIngestMarksLocalTokensForeign(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Strict})
	r.ada.Local = redact.NewLocalTokens()
	local, err := r.gate().Ingester().Text(t.Context(), "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.gate().Ingester().Text(t.Context(), "send "+local); err != nil || shown(got) != "send <~EMAIL>" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestIngestJSONStaysValid(t *testing.T) {
	for _, mode := range []redact.Mode{redact.Egress, redact.Strict} {
		r := newRig(t, redact.Config{Mode: mode})
		r.ada.Local = redact.NewLocalTokens()
		for _, raw := range []string{`{"ssn":123456789}`, `123456789`, `"ada@example.com"`, `null`, `[{"a":"[EMAIL_aaaaaaaaaaaaaaaa]"}]`} {
			got, err := r.gate().Ingester().JSON(t.Context(), json.RawMessage(raw))
			if err != nil || !json.Valid(got) {
				t.Errorf("%s: %s is %s, %v", mode, raw, got, err)
			}
		}
	}
}

func TestProjectFlowsOnlyDeny(t *testing.T) {
	mail := func(d redact.Decision) []redact.Flow {
		return []redact.Flow{{Types: []detect.Type{detect.Email}, To: "crm.*", Decision: d}}
	}
	for _, tc := range []struct {
		name string
		cfg  redact.Config
		want bool
	}{
		{"it cannot allow what the user denies", redact.Config{Mode: redact.Egress, Flows: mail(redact.Deny), Project: mail(redact.Allow)},
			false},
		{"it can deny what the user allows", redact.Config{Mode: redact.Egress, Flows: mail(redact.Allow), Project: mail(redact.Deny)},
			false},
		{"it cannot allow what strict withholds", redact.Config{Mode: redact.Strict, Project: mail(redact.Allow)}, false},
		{"both allow", redact.Config{Mode: redact.Strict, Flows: mail(redact.Allow), Project: mail(redact.Allow)}, true},
		{"without flows it says nothing", redact.Config{Mode: redact.Strict, Flows: mail(redact.Allow)}, true},
	} {
		r := newRig(t, tc.cfg)
		token := redacted(t, r.gate(), "ada@example.com")
		got, err := r.gate().Restorer().Args(t.Context(), tool.Ref{Server: "crm", Tool: "put"}, json.RawMessage(`{"to":"`+token+`"}`))
		if allowed := err == nil && strings.Contains(string(got), "ada@example.com"); allowed != tc.want {
			t.Errorf("%s: %s, %v", tc.name, got, err)
		}
	}
}

func TestLargePart(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	token := shownToken(t, r)
	for part, tokens := range map[string]bool{
		`{"full_name":"Grace Hopper"},{"note":"caf\u00e9 \u003cb\u003e \u0022"`: false,
		`{"to":"` + token + `"`: true,
		`{"to":"\u005bEMAIL_`:   true,
		`"\u0045"`:              true,
		`"\u007e"`:              true,
	} {
		if got, err := r.gate().Ingester().LargePart(t.Context(), part, true); got != tokens || err != nil {
			t.Errorf("%s: %v, %v", part, got, err)
		}
	}
	if got := redacted(t, r.gate(), "Grace Hopper came"); shown(got) != "<NAME> came" {
		t.Errorf("%s, want the indexed name redacted", got)
	}
	if _, err := (redact.Ingester{}).LargePart(t.Context(), "x", true); err == nil {
		t.Error("the zero value accepts text")
	}
}

func shownToken(t *testing.T, r *rig) string {
	t.Helper()
	return redacted(t, r.gate(), "ada@example.com")
}
