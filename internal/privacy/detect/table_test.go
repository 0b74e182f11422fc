package detect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableUsesHeader(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"commas": {"id,name,first_name\n1,Ada Lovelace,Ada\n\"2,5\", \"Grace Hopper\" ,Grace\n",
			"Ada Lovelace|Ada|Grace Hopper|Grace"},
		"a file of Windows": {"id;name\r\n1;Ada Lovelace\r\n", "Ada Lovelace"},
		"tabs":              {"name\temail\nAda Lovelace\tada@example.com", "Ada Lovelace"},
		"Markdown":          {"Here:\n\n| name | city |\n|------|------|\n| Ada Lovelace | London |\n\nname, she said\n", "Ada Lovelace"},
		"a data frame": {"           name            email\n0  Ada Lovelace  ada@example.com\n1    José Núñez    j@example.com\n",
			"Ada Lovelace|José Núñez"},
		"two tables":         {"name,x\nAda Lovelace,1\n\nx,full_name\n1,Grace Hopper\n", "Ada Lovelace|Grace Hopper"},
		"a row that is none": {"name,x\nAda Lovelace,1\nGrace Hopper\nBob Smith,2\n", "Ada Lovelace"},
		"prose":              {"The name, as it is, says nothing.\nAda Lovelace, Bob Smith, Carl Jones", ""},
		"no key":             {"id,title\n1,Ada Lovelace\n", ""},
		"a grid": {"+------+---+\n| name | n |\n+======+===+\n| Ada Lovelace | 1 |\n+---+---+\n| Grace Hopper | 2 " +
			"|\n+---+---+\n", "Ada Lovelace|Grace Hopper"},
		"a list":            {"{'address': '1 '\n 'Old '\n 'Street',\n 'card': 'Gold 4',\n", ""},
		"a key alone":       {"name\nAda Lovelace\n", ""},
		"code":              {"def f(name, email):\n    print(name, email)\n", ""},
		"numbers":           {"ssn,n\n123456789,5\n", "123456789"},
		"customers":         {"id,customer,n\n1,Anna Schmidt,2\n2,Tech Data,7\n3,Bob Miller,9\n", "Anna Schmidt|Bob Miller"},
		"nothing":           {"", ""},
		"a first line only": {"name,email\n", ""},
		"labels in cells": {"| Field | Value | From |\n|---|---|---|\n| Surname: | Lovelace | data |\n| Full name (as in your passport): " +
			"| Ada Lovelace | form |\n" +
			"| Town: | Paris |\n| Surname | Bob |\n| x: | y: | z |\n| Given names: | Grace |\n| name: | Bob Smith |",
			"Lovelace|Ada Lovelace|Grace|Bob Smith"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Config{Names: Always})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range s.Table(c.text) {
				got = append(got, c.text[f.Start:f.End])
			}
			if d := cmp.Diff(c.want, strings.Join(got, "|")); d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzTable(f *testing.F) {
	f.Add("name,x\nAda,1\n")
	f.Add("  name  x\n0 Ada  1\n")
	s, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, p := range s.Table(text) {
			if p.Start < last || p.End <= p.Start || p.End > len(text) {
				t.Fatalf("%q: %+v after %d", text, p, last)
			}
			last = p.End
		}
	})
}
