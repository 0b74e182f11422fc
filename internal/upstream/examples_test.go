package upstream_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// examples returns the built servers of examples/servers.
func examples(t *testing.T) (s *upstream.Set, root string) {
	t.Helper()
	bin, err := buildExamples()
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	return open(t, upstream.Config{Servers: []upstream.Server{
		{Name: "calculator", Kind: upstream.Program{Command: filepath.Join(bin, "calculator")}}, {Name: "weather",
			Kind: upstream.Program{Command: filepath.Join(bin, "weather")}},
		{Name: "filesystem", Kind: upstream.Program{Command: filepath.Join(bin, "filesystem"), Args: []string{root}}},
		{Name: "database", Kind: upstream.Program{Command: filepath.Join(bin, "database"), Args: []string{filepath.Join(root, "a b?.db")}}},
		{Name: "sheets", Kind: upstream.Program{Command: filepath.Join(bin, "sheets")}}, {Name: "crm",
			Kind: upstream.Program{Command: filepath.Join(bin, "crm"), Args: []string{"--record", filepath.Join(root, "record")}}},
	}}), root
}

func TestExampleServers(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	s, root := examples(t)
	if err := os.Symlink("/etc", filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ server, tool, args, want, fails string }{
		{"calculator", "calculate", `{"expression":"(5 + 3) * -2 / 4 % 3"}`, `{"result":-1}`, ""},
		{"calculator", "calculate", `{"expression":"1/0"}`, "", "division by zero"},
		{"calculator", "calculate", `{"expression":"exit()"}`, "", "only numbers"},
		{"calculator", "add", `{"a":0.5,"b":2}`, `{"result":2.5}`, ""},
		{"calculator", "multiply", `{"a":3,"b":4}`, `{"result":12}`, ""},
		{"calculator", "multiply", `{"a":"three","b":4}`, "", "type"},
		{"weather", "get_weather", `{"city":"Oslo"}`, `*made up`, ""},
		{"weather", "get_forecast", `{"city":"Oslo","days":3}`, `*"day":3`, ""},
		{"weather", "get_forecast", `{"city":"Oslo","days":15}`, "", "use 1 to 14"},
		{"filesystem", "write_file", `{"path":"notes/a.txt","content":"grüß"}`, `{"bytes":6}`, ""},
		{"filesystem", "read_file", `{"path":"notes/a.txt"}`, `{"content":"grüß"}`, ""},
		{"filesystem", "list_directory", `{"path":"notes"}`, `{"entries":[{"kind":"file","name":"a.txt","size":6}]}`, ""},
		{"filesystem", "read_file", `{"path":"../etc/passwd"}`, "", "escapes"},
		{"filesystem", "read_file", `{"path":"out/passwd"}`, "", "escapes"},
		{"filesystem", "read_file", `{"path":"none"}`, "", `"none" does not exist`},
		{"database", "execute", `{"sql":"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n)"}`, `*rows_affected`, ""},
		{"database", "execute", `{"sql":"INSERT INTO t (name, n) VALUES (?, ?), ('b', 1.5)","parameters":["a",7]}`,
			`{"last_insert_id":2,"rows_affected":2}`, ""},
		{"database", "query", `{"sql":"SELECT name, n FROM t WHERE id = ?","parameters":[1]}`,
			`{"columns":["name","n"],"more":false,"rows":[{"n":7,"name":"a"}]}`, ""},
		{"database", "query", `{"sql":"DELETE FROM t"}`, "", "readonly"},
		{"database", "list_tables", `{}`, `{"tables":[{"name":"t","sql":"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n)"}]}`, ""},
		{"sheets", "list_sheets", `{}`, `*{"about":"people who bought something","name":"customers","rows":10000}`, ""},
		{"sheets", "read_rows", `{"sheet":"customers","offset":9999}`, `*"total":10000`, ""},
		{"sheets", "read_rows", `{"sheet":"unknown"}`, "", "the sheets are customers and prospects"},
		{"sheets", "read_rows", `{"sheet":"customers","limit":1001}`, "", "limit 1 to 1000"},
		{"crm", "upsert_contact", `{"email":"Ada@example.com","social_security_number":123456789}`, `{"created":1,"updated":0}`, ""},
		{"crm", "upsert_contact", `{"email":"ada"}`, "", "not an e-mail address"},
		{"crm", "upsert_many", `{"contacts":[{"email":"ada@example.com","name":"Ada"},{"email":"bob@example.com"}]}`,
			`{"created":1,"updated":1}`, ""},
		{"crm", "upsert_many", `{"contacts":[{"email":"eve@example.com"},{"email":"eve"}]}`, "", "contact 1"},
		{"crm", "find_contact", `{"email":"ADA@example.com"}`, `{"email":"ada@example.com","name":"Ada"}`, ""},
		{"crm", "find_contact", `{"email":"eve@example.com"}`, "", "there is no contact"},
		{"crm", "count", `{}`, `{"contacts":2}`, ""},
	} {
		r, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: c.server, Tool: c.tool}, Args: json.RawMessage(c.args)})
		failure, failed := err.(*tool.Failure)
		part, some := strings.CutPrefix(c.want, "*")
		switch {
		case c.fails != "":
			if !failed || !strings.Contains(failure.Message, c.fails) || strings.Contains(failure.Message, root) {
				t.Errorf("%s %s: %v, want %q", c.tool, c.args, err, c.fails)
			}
		case err != nil, some && !strings.Contains(string(r.Structured), part), !some && string(r.Structured) != c.want:
			t.Errorf("%s %s: %s %v, want %s", c.tool, c.args, r.Structured, err, c.want)
		}
	}
	checkRecord(t, filepath.Join(root, "record"))
}

// checkRecord checks the calls that the CRM recorded, including refused ones.
func checkRecord(t *testing.T, file string) {
	t.Helper()
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(record)), "\n")
	if want := `{"tool":"upsert_contact","arguments":{"email":"Ada@example.com","social_security_number":123456789}}`; len(lines) < 7 ||
		lines[0] != want {
		t.Errorf("the record has %d lines, first line %s", len(lines), lines[0])
	}
}

func TestExampleServersDescribeThemselves(t *testing.T) {
	longtest.SkipSlow(t)
	s, _ := examples(t)
	got := map[string]string{}
	for _, server := range []string{"calculator", "weather", "filesystem", "database", "sheets", "crm"} {
		l, err := s.List(t.Context(), server)
		if err != nil || l.Info.Protocol != "2026-07-28" || len(l.Notes) > 0 {
			t.Errorf("%s: protocol %s, notes %q, %v", server, l.Info.Protocol, l.Notes, err)
		}
		for _, d := range l.Tools {
			effect := "?"
			switch {
			case d.Hints.ReadOnly != nil && *d.Hints.ReadOnly:
				effect = "reads"
			case d.Hints.Destructive != nil && *d.Hints.Destructive:
				effect = "destroys"
			}
			if d.Output == nil || d.Description == "" {
				t.Errorf("%s has an incomplete description", d.Ref)
			}
			got[d.String()] = effect
		}
	}
	want := map[string]string{
		"calculator.calculate": "reads", "calculator.add": "reads", "calculator.multiply": "reads", "weather.get_weather": "reads",
		"weather.get_forecast": "reads",
		"filesystem.read_file": "reads", "filesystem.write_file": "destroys", "filesystem.list_directory": "reads",
		"database.query": "reads", "database.execute": "destroys", "database.list_tables": "reads",
		"sheets.list_sheets": "reads", "sheets.read_rows": "reads", "crm.upsert_contact": "destroys", "crm.upsert_many": "destroys",
		"crm.find_contact": "reads", "crm.count": "reads",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
