package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// personal lists the columns of the sheet with personal data.
var personal = []string{"name", "email", "phone", "address", "ssn", "social_security_number", "card", "iban", "last_ip"}

// TestSheetsToCRM copies 10,000 people from one server to another with the code of the
// example. It checks every byte sent to the client and every argument sent to the CRM.
func TestSheetsToCRM(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	needSandbox(t)
	servers := exampleServers(t)
	rows := sheetRows(t, filepath.Join(servers, "sheets"))
	var values []string
	for _, row := range rows {
		for _, column := range personal {
			values = append(values, fmt.Sprint(row[column]))
		}
		values = append(values, fmt.Sprintf("assistant.%v@example.org", row["id"])) // in the notes
	}
	for _, c := range []struct{ mode, version, pii string }{
		{"off", "2025-11-25", "{mode: off}"},
		{"egress", "2025-11-25", "{mode: egress, addresses: all}"},
		{"egress", "2026-07-28", "{addresses: all}"},
		{"strict", "2026-07-28", "{mode: strict, addresses: all, flows: [{types: [" + strings.Join(crmTypes,
			", ") + "], to: \"crm.*\", decision: allow}]}"},
	} {
		t.Run(c.mode+" "+c.version, func(t *testing.T) {
			t.Parallel()
			record := filepath.Join(t.TempDir(), "record")
			w := newRecordingClient(t, crmConfig(servers, record, c.pii), c.version)
			best := importAll(w).Best[0]
			sameContacts(t, rows, record)
			useShownValues(w, best)
			checkSecondTurn(t, biggestSpender(rows), record)
			if found := leaks(w.newOutput(), values); c.mode != "off" && len(found) > 0 {
				t.Errorf("%d values were sent to the client, among them %.10q", len(found), found)
			} else if c.mode == "off" && len(found) < 3*len(personal) {
				t.Errorf("%d values were found in what the client was sent: this test finds nothing", len(found))
			}
		})
	}
}

// crmTypes lists the types of data in the contacts.
var crmTypes = []string{"NAME", "EMAIL", "PHONE", "ADDRESS", "SSN", "CREDIT_CARD", "IBAN", "IP_ADDRESS"}

// The e-mail addresses of the sheet have domains reserved for documentation, which are
// redacted only if the configuration requires it.
func crmConfig(servers, record, pii string) string {
	return fmt.Sprintf("servers:\n  sheets: {command: %[1]s/sheets}\n  crm: {command: %[1]s/crm, args: [--record, %[2]s]}\npii: "+
		"%[3]s\npolicy: {default: allow}\n", servers, record, pii)
}

// In strict mode no value is restored for a tool without a rule. The error contains the
// missing rule.
func TestStrictModeNamesMissingRule(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	record := filepath.Join(t.TempDir(), "record")
	w := newRecordingClient(t, crmConfig(exampleServers(t), record,
		`{mode: strict, flows: [{types: [EMAIL], to: "crm.*", decision: allow}]}`), "2025-11-25")
	r := w.execute(`
from servers import crm, sheets
row = sheets.read_rows(sheet="prospects", limit=1)["rows"][0]
print(crm.upsert_contact(email=row["email"]))
crm.upsert_contact(email=row["email"], name=row["name"])`)
	if len(r.Output) != 1 || r.Success {
		t.Errorf("%s", r.raw)
	}
	for _, want := range []string{"NAME", "crm.upsert_contact", "pii", "flows", "allow"} {
		if !strings.Contains(r.Error, want) {
			t.Errorf("the error does not name %s: %s", want, r.Error)
		}
	}
	if calls := recorded(t, record, "upsert_contact"); len(calls) != 1 || !strings.Contains(string(calls[0]), "@") {
		t.Errorf("the CRM was called with %s", calls)
	}
}

// sheetRows returns the rows of the sheet, read from the server directly.
func sheetRows(t *testing.T, program string) (rows []map[string]any) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	ask := asker(t, in, bufio.NewReaderSize(out, 1<<20))
	ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for total := 1; len(rows) < total; {
		answer := ask("tools/call", map[string]any{"name": "read_rows",
			"arguments": map[string]any{"sheet": "customers", "offset": len(rows), "limit": 1000}})
		var page struct {
			Total int
			Rows  []map[string]any
		}
		decodeNumbers(t, []byte(answer.Content[0].Text), &page)
		rows, total = append(rows, page.Rows...), page.Total
	}
	return rows
}

// decodeNumbers keeps all digits.
func decodeNumbers(t *testing.T, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %.200s", err, data)
	}
}

// imported is the result of the example.
type imported struct {
	Rows, Created int
	InCRM         int `json:"in_crm"`
	Best          []map[string]any
}

func importAll(w *recordingClient) imported {
	w.t.Helper()
	code, err := os.ReadFile("../../examples/crm/crm.py")
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.execute(string(code))
	var did imported
	if err := json.Unmarshal(r.Result, &did); err != nil || did.Rows != 10_000 || did.Created != 10_000 || did.InCRM != 10_000 ||
		len(did.Best) != 3 {
		w.t.Fatalf("%+v: %+v, %v", r, did, err)
	}
	return did
}

// useShownValues uses the values shown to the client in every place where a model might.
func useShownValues(w *recordingClient, shown map[string]any) {
	w.t.Helper()
	email, name := asJSON(shown["email"]), asJSON(shown["name"])
	r := w.execute(fmt.Sprintf(`
from servers import crm, sheets
found = crm.find_contact(email=%[1]s)
same = [found["name"] == %[2]s, found["email"] in {%[1]s}]
pages = (sheets.read_rows(sheet="customers", offset=o, limit=1000)["rows"] for o in range(0, 10_000, 1000))
row = next(r for page in pages for r in page if r["email"] == %[1]s)
crm.upsert_contact(email=row["email"], name=who["name"], phone=who["phone"], social_security_number=who["number"], notes=f"called {%[2]s} on {who['phone']}")
result = [same, row["name"], found]
`, email, name), "context_vars", map[string]any{"who": map[string]any{"name": shown["name"], "phone": shown["phone"], "number": shown["social_security_number"]}})
	if !r.Success || !strings.HasPrefix(string(r.Result), "[[true,true],"+string(name)) {
		w.t.Errorf("the second turn: %s", r.raw)
	}
}

// biggestSpender returns the row with the highest spending.
func biggestSpender(rows []map[string]any) (most map[string]any) {
	spent := func(row map[string]any) float64 { f, _ := row["spent"].(json.Number).Float64(); return f }
	for _, row := range rows {
		if most == nil || spent(row) > spent(most) {
			most = row
		}
	}
	return most
}

// checkSecondTurn checks the calls of the CRM in the second turn.
func checkSecondTurn(t *testing.T, row map[string]any, record string) {
	t.Helper()
	want := map[string]any{"email": row["email"], "name": row["name"], "phone": row["phone"],
		"social_security_number": row["social_security_number"],
		"notes":                  fmt.Sprintf("called %s on %s", row["name"], row["phone"])}
	for tool, want := range map[string]map[string]any{"find_contact": {"email": row["email"]}, "upsert_contact": want} {
		var got map[string]any
		if calls := recorded(t, record, tool); len(calls) != 1 {
			t.Errorf("%s was called %d times", tool, len(calls))
		} else if decodeNumbers(t, calls[0], &got); !cmp.Equal(want, got) {
			t.Errorf("%s was called with (-want +got):\n%s", tool, cmp.Diff(want, got))
		}
	}
}

// recorded returns the calls of a tool that the CRM recorded.
func recorded(t *testing.T, file, tool string) (args []json.RawMessage) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var call struct {
			Tool      string
			Arguments json.RawMessage
		}
		if err := json.Unmarshal(line, &call); err != nil {
			t.Fatal(err)
		}
		if call.Tool == tool {
			args = append(args, call.Arguments)
		}
	}
	return args
}

// sameContacts checks that the CRM received each row unchanged.
func sameContacts(t *testing.T, rows []map[string]any, record string) {
	t.Helper()
	came := map[string]map[string]any{}
	for _, args := range recorded(t, record, "upsert_many") {
		var in struct{ Contacts []map[string]any }
		decodeNumbers(t, args, &in)
		for _, c := range in.Contacts {
			came[fmt.Sprint(c["email"])] = c
		}
	}
	wrong := 0
	for _, row := range rows {
		want := map[string]any{}
		for _, column := range append([]string{"notes"}, personal...) {
			want[column] = row[column]
		}
		got := came[fmt.Sprint(row["email"])]
		delete(got, "segment")
		if d := cmp.Diff(want, got); d != "" {
			if wrong++; wrong <= 3 {
				t.Errorf("the CRM was given another contact (-want +got):\n%s", d)
			}
		}
	}
	if wrong > 0 || len(came) != len(rows) {
		t.Errorf("the CRM was given %d contacts, %d of them wrong", len(came), wrong)
	}
}
