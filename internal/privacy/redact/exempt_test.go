package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

func TestNonPublicAddressesStay(t *testing.T) {
	local := []string{"127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.9", "192.168.1.77", "169.254.10.20", "192.0.2.77", "198.51.100.7",
		"203.0.113.9", "0.0.0.0",
		"::1", "fe80::1:2", "fd12:3456:789a::1", "2001:db8::8a2e:370:7334", "10.0.0.0/8", "192.168.1.0/24", "::ffff:10.0.0.1"}
	public := []string{"8.8.4.4", "172.32.0.1", "2a00:1450:4001:81b::200e", "100.64.0.1", "203.0.114.9", "8.8.8.0/24"}
	for name, c := range map[string]struct {
		all  bool
		gone []string
		stay []string
	}{"public": {false, public, local}, "all": {true, append(public, local...), nil}} {
		t.Run(name, func(t *testing.T) {
			e := newRig(t, redact.Config{Mode: redact.Egress, AllAddresses: c.all}).gate()
			if _, err := e.Ingester().Text(t.Context(), `{"hosts":"`+strings.Join(local, " ")+`"}`); err != nil {
				t.Fatal(err)
			}
			for _, form := range forms {
				left := redacted(t, e, form("listens on "+strings.Join(append(c.gone, c.stay...), " and ")+" now"))
				for _, a := range c.gone {
					if strings.Contains(left, a+" ") {
						t.Errorf("%s is in %s", a, left)
					}
				}
				for _, a := range c.stay {
					if !strings.Contains(left, a+" ") && !strings.Contains(left, a+"\\n") {
						t.Errorf("%s is not in %s", a, left)
					}
				}
			}
		})
	}
}

func TestSanitizeReplacesNonPublicAddresses(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	text, tokens, err := e.Tokens().Sanitize(t.Context(), "from 127.0.0.1 and 192.168.1.77")
	if err != nil || shown(text) != "from <IP_ADDRESS> and <IP_ADDRESS>" || len(tokens) != 2 {
		t.Errorf("%s, %v", text, err)
	}
	// Sanitize does not make them known values.
	if left := redacted(t, e, "from 127.0.0.1 and 192.168.1.77"); left != "from 127.0.0.1 and 192.168.1.77" {
		t.Error(left)
	}
}

// wrote returns the gate of Ada in a call with arguments.
func (r *rig) wrote(args string) *redact.Gate {
	o := r.ada
	o.ModelInput = redact.NewModelInput(json.RawMessage(args), "context_vars")
	return r.rules.For(o)
}

func TestModelInputIsNotReplaced(t *testing.T) {
	const all = "ada@example.com, 131-42-4002, Ada Lovelace, (212) 555-0123"
	for name, c := range map[string]struct {
		mode redact.Mode
		args string
		want string
	}{
		"code": {redact.Egress, `{"code":"print('ada@example.com')"}`, "ada@example.com, <SSN>, <NAME>, <PHONE>"},
		"any argument": {redact.Egress, `{"query":{"x":["131-42-4002"]},"code":"f(\"Ada Lovelace\")"}`,
			"<EMAIL>, 131-42-4002, Ada Lovelace, <PHONE>"},
		"a number":               {redact.Egress, `{"code":"x","ssn":131424002}`, "<EMAIL>, <SSN>, <NAME>, <PHONE>"}, // different spelling
		"variables do not count": {redact.Egress, `{"code":"x","context_vars":{"a":"ada@example.com"}}`, "<EMAIL>, <SSN>, <NAME>, <PHONE>"},
		"nor a part of a word": {redact.Egress, `{"code":"xada@example.com 131-42-40021 Ada Lovelaces 1(212) 555-01234"}`,
			"<EMAIL>, <SSN>, <NAME>, <PHONE>"},
		"nor another value":  {redact.Egress, `{"code":"bob@example.com Ada"}`, "<EMAIL>, <SSN>, <NAME>, <PHONE>"},
		"nor in mode strict": {redact.Strict, `{"code":"ada@example.com Ada Lovelace"}`, "<EMAIL>, <SSN>, <NAME>, <PHONE>"},
		"nothing":            {redact.Egress, ``, "<EMAIL>, <SSN>, <NAME>, <PHONE>"},
		"no JSON":            {redact.Egress, `{"code":"ada@example.com`, "<EMAIL>, <SSN>, <NAME>, <PHONE>"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, redact.Config{Mode: c.mode})
			if _, err := r.gate().Ingester().Text(t.Context(), people); err != nil {
				t.Fatal(err)
			}
			if got := shown(redacted(t, r.wrote(c.args), all)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := shown(redacted(t, r.gate(), all)); got != "<EMAIL>, <SSN>, <NAME>, <PHONE>" {
				t.Errorf("in the next call: %s", got)
			}
		})
	}
}

// The items of output are also searched joined. A value that the model may see is still
// the end of one item and no part of a value that begins in another.
func TestExemptValueDoesNotContinueAnotherItem(t *testing.T) {
	for _, items := range [][]string{{"call zoe@corp.example now", "zoe@corp.example"}, {"host 1", "10.1.2.3"},
		{"ab", "zoe@corp.example"}} {
		e := newRig(t, redact.Config{Mode: redact.Egress}).wrote(`{"code":"print('zoe@corp.example')"}`)
		body := map[string]any{"output": items}
		if got, want := redacted(t, e, body), marshalBody(body); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestModelInputDoesNotRestoreTokens(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	mail := redacted(t, r.gate(), "ada@example.com")
	e := r.wrote(`{"code":"print('` + mail + `')"}`)
	if got := redacted(t, e, "ada@example.com is "+mail); got != mail+" is "+mail {
		t.Error(got)
	}
	text, tokens, err := r.wrote(`{"text":"ada@example.com"}`).Tokens().Sanitize(t.Context(), "ada@example.com")
	if err != nil || text != mail || len(tokens) != 1 {
		t.Errorf("sanitized: %s, %v", text, err)
	}
}

func TestEscapedNameNeedsEvidence(t *testing.T) {
	e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
	body := json.RawMessage(`[{"name":"Jos\u00e9 N\u00fa\u00f1ez","email":"jn@example.com"},{"name":"Caf\u00e9 ` +
		`Bleu","price":3},{"patient":{"name":"Zo\u00eb Li"}}]`)
	want := `[{"name":"<NAME>","email":"<EMAIL>"},{"name":"Caf\u00e9 Bleu","price":3},{"patient":{"name":"<NAME>"}}]`
	if got := shown(redacted(t, e, body)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestToolNamesStay(t *testing.T) {
	own := func(name string) bool { return name == "Get Weather" || name == "Grace" }
	r := newRig(t, redact.Config{Mode: redact.Egress, IsToolName: own})
	body := `[{"first_name":"Get Weather","email":"ada@example.com"},{"first_name":"Grace"},{"first_name":"Ada"}]`
	if _, err := r.gate().Ingester().Text(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	want := `[{"first_name":"Get Weather","email":"<EMAIL>"},{"first_name":"Grace"},{"first_name":"<NAME>"}]`
	if got := shown(redacted(t, r.gate(), json.RawMessage(body))); got != want {
		t.Errorf("got %s", got)
	}
}
