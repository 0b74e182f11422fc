package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// editForms are forms of configurations that people write. Each is edited, with nothing but the
// insertion changed, or refused with a hint.
var editForms = map[string]struct {
	text    string
	refused bool
}{
	"nothing":            {text: ""},
	"a comment":          {text: "# mine\n"},
	"no servers":         {text: "profile: lean # fast\n"},
	"empty braces":       {text: "servers: {} # none yet\npolicy: {default: ask}\n"},
	"spaced braces":      {text: "servers: { }\n"},
	"null":               {text: "servers: # none yet\npolicy: {default: ask}\n"},
	"null in words":      {text: "servers: null # none yet\n", refused: true},
	"tilde":              {text: "servers: ~\n", refused: true},
	"a comment inside":   {text: "servers:\n  # none yet\npolicy: {default: ask}\n"},
	"block":              {text: "servers:\n  a: {command: x} # a\n# end\n"},
	"four spaces":        {text: "servers:\n    a:\n        command: x\n"},
	"no last newline":    {text: "servers:\n  a:\n    command: x"},
	"CRLF":               {text: "servers:\r\n  a:\r\n    command: x # a\r\npolicy: {default: ask}\r\n"},
	"CRLF in braces":     {text: "servers: {\r\n  a: {command: x} # a\r\n}\r\n"},
	"CRLF and braces":    {text: "profile: lean\r\nservers: {}\r\n"},
	"quoted keys":        {text: "\"servers\":\n  \"a\": {\"command\": \"x\"} # a\n"},
	"single quotes":      {text: "'servers':\n  'a':\n    'command': x\n"},
	"quoted, in braces":  {text: "servers: {\"a\": {\"command\": \"x\"}}\n"},
	"JSON":               {text: "{\"servers\": {\"a\": {\"command\": \"x\"}}}\n"},
	"JSON in lines":      {text: "{\n  \"servers\": {\n    \"a\": {\n      \"command\": \"x\"\n    }\n  }\n}\n"},
	"JSON with tabs":     {text: "{\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}\n\t}\n}\n", refused: true},
	"a tab before #":     {text: "servers:\t# mine\n  a: {command: x}\t# a\n"},
	"indented by tabs":   {text: "servers:\n\ta: {command: x}\n", refused: true},
	"an anchor":          {text: "servers:\n  a: &a {command: x}\n", refused: true},
	"an alias":           {text: "servers:\n  a: &a {command: x}\n  b: *a\n", refused: true},
	"a merge":            {text: "servers:\n  a: &a\n    command: x\n  b:\n    <<: *a\n", refused: true},
	"an anchored map":    {text: "servers: &s\n  a: {command: x}\n", refused: true},
	"a list":             {text: "servers:\n  - {name: a, command: x}\n", refused: true},
	"a list in brackets": {text: "servers: [{name: a, command: x}]\n", refused: true},
	"a byte order mark":  {text: "\ufeffservers:\n  a: {command: x}\n"},
	"a document start":   {text: "---\nservers:\n  a: {command: x}\n"},
	"a document end":     {text: "servers:\n  a: {command: x}\n...\n"},
	"servers first":      {text: "servers:\n  a:\n    command: x\n\n\n# of policy\npolicy: {default: ask}\n"},
	"a block text": {text: "servers:\n  a:\n    command: sh\n    args:\n      - -c\n      - |\n        echo # no comment\n\n       " +
		" servers: {}\n  c: {command: y}\n"},
	"deep braces": {text: "servers: {a: {command: x, env: {A: \"}\", B: '{'}}, # }\n}\n"},
}

// TestEveryFormIsEditedOrRefused adds, replaces, disables, enables and removes a server in each form.
func TestEveryFormIsEditedOrRefused(t *testing.T) {
	const path = "/d/s.yaml"
	names := func(text []byte) (all []string) {
		t.Helper()
		entries, err := config.EntriesIn(path, text)
		if err != nil {
			t.Errorf("the result cannot be read: %v\n%s", err, text)
		}
		for _, e := range entries {
			all = append(all, e.Name)
		}
		slices.Sort(all)
		return all
	}
	for form, f := range editForms {
		t.Run(form, func(t *testing.T) {
			got, err := config.AddServers(path, []byte(f.text), []config.Server{{Name: "new", Command: "z", Dir: "/d"}})
			if err != nil {
				if !f.refused || fault.Hint(err) == "" && fault.Message(err) == "" {
					t.Errorf("not added: %v, hint %q", err, fault.Hint(err))
				}
				return
			}
			if f.refused {
				t.Errorf("not refused:\n%s", got)
			}
			checkInsertion(t, f.text, string(got))
			if !slices.Contains(names(got), "new") {
				t.Errorf("there is no new server:\n%s", got)
			}
			checkEdits(t, path, f.text, string(got), names)
		})
	}
}

// checkEdits disables, enables, replaces and removes the server new in a text that it was added to.
func checkEdits(t *testing.T, path, before, added string, names func([]byte) []string) {
	t.Helper()
	off, err := config.SetDisabled(path, []byte(added), "new", true)
	if err != nil {
		t.Errorf("not disabled: %v\n%s", err, added)
		return
	}
	checkInsertion(t, added, string(off))
	on, err := config.SetDisabled(path, off, "new", false)
	if err != nil || len(names(on)) != len(names([]byte(added))) {
		t.Errorf("not enabled: %v\n%s", err, on)
	}
	replaced, err := config.ReplaceServer(path, []byte(added), config.Server{Name: "new", URL: "https://x.example/", Dir: "/d"})
	if err != nil || !slices.Equal(names(replaced), names([]byte(added))) {
		t.Errorf("not replaced: %v\n%s", err, replaced)
	}
	removed, err := config.RemoveServer(path, []byte(added), "new")
	if err != nil || slices.Contains(names(removed), "new") {
		t.Errorf("not removed: %v\n%s", err, removed)
	}
	for _, text := range []string{string(off), string(on), string(replaced), string(removed)} {
		for line := range strings.Lines(before) {
			if _, comment, ok := strings.Cut(line, "#"); ok && !strings.Contains(text, strings.TrimSpace(comment)) {
				t.Errorf("the comment %q is gone:\n%s", comment, text)
			}
		}
		if strings.Count(before, "\r\n") > 0 && strings.Count(text, "\n") != strings.Count(text, "\r\n") {
			t.Errorf("a line ends without \\r: %q", text)
		}
	}
}

// checkInsertion fails if anything but one insertion, the empty braces, or a comma before a comment has changed.
func checkInsertion(t *testing.T, before, after string) {
	t.Helper()
	start := 0
	for start < len(before) && start < len(after) && before[start] == after[start] {
		start++
	}
	end := 0
	for end < len(before)-start && end < len(after)-start && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	rest, with := strings.Trim(before[start:len(before)-end], " {}"), after[start:len(after)-end]
	if rest != "" && !strings.HasPrefix(with, ", "+rest) {
		t.Errorf("%q was replaced:\n%s\n%s", rest, before, after)
	}
}

// TestEveryFormTakesPackages sets the packages in each form of servers, and in forms of sandbox.
func TestEveryFormTakesPackages(t *testing.T) {
	const path = "/d/s.yaml"
	forms := map[string]string{
		"null":             "sandbox: # none\nprofile: lean\n",
		"braces":           "sandbox: {} # none\n",
		"a list":           "sandbox:\n  packages:\n    - six # old\n  timeout: 5s # t\n",
		"a list, no space": "sandbox:\n  packages:\n  - six\n  timeout: 5s # t\n",
		"brackets":         "sandbox: {packages: [six], timeout: 5s} # t\n",
		"CRLF":             "# one\r\nsandbox:\r\n  # two\r\n  packages: [six]\r\n  timeout: 5s # t\r\nprofile: lean\r\n",
		"quoted":           "\"sandbox\":\n  \"packages\": [\"six\"] # p\n",
		"an anchor":        "sandbox: &s\n  timeout: 5s\n",
	}
	for name, f := range editForms {
		if !f.refused {
			forms["servers: "+name] = f.text
		}
	}
	for name, text := range forms {
		got, err := config.SetPackages(path, []byte(text), []string{"numpy", "pandas"}, nil)
		if err != nil {
			if fault.Hint(err) == "" && name != "an anchor" {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: refused: %v; %s", name, err, fault.Hint(err))
			continue
		}
		again, err := config.SetPackages(path, got, []string{"numpy", "pandas"}, nil)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: set again: %v\n%q\n%q", name, err, got, again)
		}
		if strings.Count(text, "\r\n") > 0 && strings.Count(string(got), "\n") != strings.Count(string(got), "\r\n") {
			t.Errorf("%s: a line ends without \\r: %q", name, got)
		}
		for line := range strings.Lines(text) {
			if _, comment, ok := strings.Cut(line, "#"); ok && !strings.Contains(string(got),
				strings.TrimSpace(comment)) && !strings.Contains(comment, "old") {
				t.Errorf("%s: the comment %q is gone:\n%s", name, comment, got)
			}
		}
	}
}

// TestLinesOfMessagesWithCRLF tests the line of an error below comments.
func TestLinesOfMessagesWithCRLF(t *testing.T) {
	_, err := config.ServersIn("/d/s.yaml", []byte("# one\r\n# two\r\nservers:\r\n  a: {command: x} # three\r\n  b: {comand: y}\r\n"))
	if err == nil || !strings.Contains(err.Error(), "line 5") {
		t.Error(err)
	}
}
