package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// TestScannerFindsAllPersonalData checks that the generated values are suitable for the
// privacy tests: all are found, by their column and in the text of the notes.
func TestScannerFindsAllPersonalData(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]detect.Type{"name": detect.Name, "email": detect.Email, "phone": detect.Phone, "ssn": detect.SSN,
		"social_security_number": detect.SSN,
		"card":                   detect.CreditCard, "iban": detect.IBAN, "address": detect.Address, "last_ip": detect.IPAddress}
	seen := map[string]bool{}
	for _, s := range sheets {
		for i := range s.Rows {
			row := columns(t, invent(s.Name, i))
			for column, typ := range types {
				value := fmt.Sprint(row[column])
				if column == "name" { // needs the evidence of other values in the row
					checkName(t, scanner, row)
				} else if f := scanner.Value(column, value); len(f) != 1 || f[0].Start != 0 || f[0].End != len(value) || f[0].Type != typ {
					t.Fatalf("findings in %s %q: %v", column, value, f)
				}
			}
			checkNote(t, scanner, row, types)
			if mail := row["email"].(string); seen[mail] {
				t.Fatalf("duplicate %s", mail)
			} else if s.Name == "customers" {
				seen[mail] = true
			}
		}
	}
}

// checkName searches for the name in its row.
func checkName(t *testing.T, scanner *detect.Scanner, row map[string]any) {
	t.Helper()
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, f := range scanner.Scan(text) {
		if f.Type == detect.Name && text[f.Start:f.End] == row["name"] {
			return
		}
	}
	t.Fatalf("the name %q is not found in %s", row["name"], text)
}

// columns returns a row as decoded by code.
func columns(t *testing.T, p person) (row map[string]any) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&row); err != nil {
		t.Fatal(err)
	}
	return row
}

// checkNote removes the findings from a note, and checks that no value remains.
func checkNote(t *testing.T, scanner *detect.Scanner, row map[string]any, types map[string]detect.Type) {
	t.Helper()
	note := row["notes"].(string)
	left, from := "", 0
	for _, f := range scanner.Value("notes", note) {
		left, from = left+note[from:f.Start], f.End
	}
	left += note[from:]
	for column := range types {
		if strings.Contains(left, fmt.Sprint(row[column])) || strings.Contains(left, "@") {
			t.Fatalf("in the note %q this was not found: %q", note, left)
		}
	}
}

func TestInventIsDeterministic(t *testing.T) {
	if a, b := invent("customers", 4711), invent("customers", 4711); a != b || a == invent("prospects", 4711) {
		t.Errorf("invent returned %+v and %+v", a, b)
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		in    span
		rows  int
		first int
	}{{span{Sheet: "prospects"}, 40, 1}, {span{Sheet: "customers"}, 100, 1}, {span{"customers", 9_990, 1000}, 10, 9_991},
		{span{"prospects", 40, 1}, 0, 0}} {
		p, err := read(c.in)
		if err != nil || len(p.Rows) != c.rows || c.rows > 0 && p.Rows[0].ID != c.first {
			t.Errorf("%+v: %d rows, %v", c.in, len(p.Rows), err)
		}
	}
	for _, in := range []span{{Sheet: "nothing"}, {Sheet: "customers", Limit: 1001}, {Sheet: "customers", Offset: -1},
		{Sheet: "customers", Limit: -5}} {
		if _, err := read(in); err == nil {
			t.Errorf("read accepted %+v", in)
		}
	}
}
