package redact_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

var (
	builds = tool.Ref{Server: "ci", Tool: "builds"}
	crm    = tool.Ref{Server: "crm", Tool: "list"}
)

// answer ingests an answer of a tool.
func answer(t *testing.T, e *redact.Gate, ref tool.Ref, body string) {
	t.Helper()
	if _, err := e.Ingester().From(ref).Result(t.Context(), tool.Result{Structured: json.RawMessage(body)}); err != nil {
		t.Fatal(err)
	}
	e.Ingester().Wait()
}

func TestExceptionsOfTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		exception redact.Exception
		text      string
		want      string
	}{
		"value": {redact.Exception{Value: "Help@example.com"}, "help@example.com or ada@example.com",
			"help@example.com or <EMAIL>"},
		"value in another": {redact.Exception{Value: "lp@example.com"}, "help@example.com", "<EMAIL>"},
		"value encoded":    {redact.Exception{Value: "help@example.com"}, "aGVscEBleGFtcGxlLmNvbQ==", "aGVscEBleGFtcGxlLmNvbQ=="},
		"type": {redact.Exception{Types: []detect.Type{detect.IPAddress}}, "8.8.4.4 help@example.com",
			"8.8.4.4 <EMAIL>"},
		"value of another type":     {redact.Exception{Types: []detect.Type{detect.Phone}, Value: "8.8.4.4"}, "8.8.4.4", "<IP_ADDRESS>"},
		"key that code writes":      {redact.Exception{Key: "tag"}, `{"tag":"8.8.4.4"}`, `{"tag":"<IP_ADDRESS>"}`},
		"tool without an answer":    {redact.Exception{Tool: "*"}, "8.8.4.4", "<IP_ADDRESS>"},
		"value of an answer's tool": {redact.Exception{Tool: "ci.*", Value: "8.8.4.4"}, "8.8.4.4", "<IP_ADDRESS>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRig(t, redact.Config{Mode: redact.Egress, Exceptions: []redact.Exception{c.exception}}).gate()
			if got := shown(redacted(t, e, c.text)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestExceptionsOfToolsAndKeys(t *testing.T) {
	for name, c := range map[string]struct {
		exception redact.Exception
		from      tool.Ref
		body      string
		want      string
	}{
		"tool":             {redact.Exception{Tool: "ci.*"}, builds, `{"a":"9.8.4.4"}`, "9.8.4.4"},
		"another tool":     {redact.Exception{Tool: "ci.*"}, crm, `{"a":"9.8.4.4"}`, "<IP_ADDRESS>"},
		"unknown tool":     {redact.Exception{Tool: "*"}, tool.Ref{}, `{"a":"9.8.4.4"}`, "<IP_ADDRESS>"},
		"key":              {redact.Exception{Key: "tag-no"}, crm, `{"tagNo": "9.8.4.4"}`, "9.8.4.4"},
		"key in a string":  {redact.Exception{Key: "tag"}, crm, `{"text":"{\"tag\": \"9.8.4.4\"}"}`, "9.8.4.4"},
		"key of a line":    {redact.Exception{Key: "tag"}, crm, `{"text":"id: 1\ntag: 9.8.4.4"}`, "9.8.4.4"},
		"end of a key":     {redact.Exception{Key: "tag"}, crm, `{"pretag":"9.8.4.4"}`, "<IP_ADDRESS>"},
		"another key":      {redact.Exception{Key: "tag"}, crm, `{"tag":1,"host":"9.8.4.4"}`, "<IP_ADDRESS>"},
		"key and tool":     {redact.Exception{Key: "tag", Tool: "ci.*"}, crm, `{"tag":"9.8.4.4"}`, "<IP_ADDRESS>"},
		"also another key": {redact.Exception{Key: "tag"}, crm, `{"tag":"9.8.4.4","host":"9.8.4.4"}`, "<IP_ADDRESS>"},
		"type":             {redact.Exception{Key: "tag", Types: []detect.Type{detect.Email}}, crm, `{"tag":"9.8.4.4"}`, "<IP_ADDRESS>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, redact.Config{Mode: redact.Egress, Exceptions: []redact.Exception{c.exception}})
			answer(t, r.gate(), c.from, c.body)
			if got := shown(redacted(t, r.gate(), "9.8.4.4")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := shown(redacted(t, r.rules.For(r.bob), "9.8.4.4")); got != "<IP_ADDRESS>" {
				t.Errorf("another tenant is shown %s", got)
			}
		})
	}
}

// A value that an exception allows for one tool is private again as soon as it occurs
// elsewhere, in any order.
func TestExceptionOfAToolDoesNotApplyToOthers(t *testing.T) {
	cfg := redact.Config{Mode: redact.Egress, Exceptions: []redact.Exception{{Tool: "ci.*"}}}
	const mail = "ada@example.com"
	for name, steps := range map[string]func(*redact.Gate){
		"the other tool first": func(e *redact.Gate) { answer(t, e, crm, `{"to":"`+mail+`"}`); answer(t, e, builds, `["`+mail+`"]`) },
		"the other tool later": func(e *redact.Gate) { answer(t, e, builds, `["`+mail+`"]`); answer(t, e, crm, `{"to":"`+mail+`"}`) },
		"sent to the tool": func(e *redact.Gate) {
			e.Ingester().From(builds).Sent(json.RawMessage(`{"echo":"` + mail + `"}`))
			answer(t, e, builds, `["`+mail+`"]`)
		},
		"in the vault": func(e *redact.Gate) { redacted(t, e, "write to "+mail); answer(t, e, builds, `["`+mail+`"]`) },
	} {
		e := newRig(t, cfg).gate()
		steps(e)
		if got := shown(redacted(t, e, "to "+mail)); got != "to <EMAIL>" {
			t.Errorf("%s: the model is shown %s", name, got)
		}
	}
	// Names of less than five letters are not indexed everywhere.
	e := newRig(t, cfg).gate()
	answer(t, e, builds, `{"first_name":"ann"}`)
	answer(t, e, crm, `{"first_name":"ann"}`)
	if got := shown(redacted(t, e, json.RawMessage(`{"first_name":"ann"}`))); got != `{"first_name":"<NAME>"}` {
		t.Errorf("the model is shown %s", got)
	}
}

func TestStoredExceptions(t *testing.T) {
	r := newRig(t, redact.Config{Mode: redact.Egress})
	allow := func(e vault.Exception, value string) vault.Exception {
		e, err := r.ada.Vault.Exceptions.Allow(t.Context(), e, value)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := allow(vault.Exception{Type: detect.Email}, "Ada@example.com")
	if got := shown(redacted(t, r.gate(), "ada@example.com bob@example.com")); got != "ada@example.com <EMAIL>" {
		t.Error(got)
	}
	if got := shown(redacted(t, r.rules.For(r.bob), "ada@example.com")); got != "<EMAIL>" {
		t.Errorf("another tenant is shown %s", got)
	}
	ofTool := allow(vault.Exception{Tool: "ci.*"}, "")
	answer(t, r.gate(), builds, `{"host":"9.8.4.4"}`)
	if got := redacted(t, r.gate(), "9.8.4.4"); got != "9.8.4.4" {
		t.Error(got)
	}
	for _, e := range []vault.Exception{first, ofTool} {
		if err := r.ada.Vault.Exceptions.Disallow(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown(redacted(t, r.gate(), "ada@example.com 9.8.4.4")); got != "<EMAIL> <IP_ADDRESS>" {
		t.Errorf("after they were removed: %s", got)
	}
	if err := r.ada.Vault.Exceptions.Disallow(context.Background(), first.ID); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestStrictModeHonorsExceptions(t *testing.T) {
	for ref, want := range map[tool.Ref]string{builds: `{"host":"9.8.4.4"}`, crm: `{"host":"<IP_ADDRESS>"}`} {
		r := newRig(t, redact.Config{Mode: redact.Strict, Exceptions: []redact.Exception{{Tool: "ci.*",
			Types: []detect.Type{detect.IPAddress}}}})
		r.ada.Local = redact.NewLocalTokens()
		res, err := r.gate().Ingester().From(ref).Result(t.Context(), tool.Result{Structured: json.RawMessage(`{"host":"9.8.4.4"}`)})
		if got := shown(string(res.Structured)); err != nil || got != want {
			t.Errorf("%s: code gets %s, want %s (%v)", ref, got, want, err)
		}
	}
}

func TestNewRejectsExceptions(t *testing.T) {
	for name, e := range map[string]redact.Exception{"empty": {}, "pattern": {Tool: "ci.["}, "key": {Key: "--"}} {
		if _, err := redact.New(redact.Config{Mode: redact.Off, Exceptions: []redact.Exception{e}}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
