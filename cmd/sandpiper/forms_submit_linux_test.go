package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// TestFilledFormIsSubmitted goes through all stages with the official Go SDK: code extracts data
// from a file and maps it to the fields, the person is asked for the rest, the filled form is
// saved, and a tool of a server submits it once the person has approved the call.
func TestFilledFormIsSubmitted(t *testing.T) {
	t.Parallel()
	for _, version := range testedVersions {
		t.Run(version, func(t *testing.T) {
			needSandbox(t)
			home := t.TempDir()
			record := filepath.Join(home, "record")
			config := "profile: full\npii: {addresses: all}\nservers:\n  crm: {command: " + exampleServers(t) + "/crm, args: [--record, " +
				record + "]}\n"
			for name, content := range map[string]string{"permit.html": formtest.HTMLApplication, "letter.txt": letter,
				"sandpiper.yaml": config} {
				path := filepath.Join(home, name)
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if name == "sandpiper.yaml" {
					continue
				}
				if out, err := sandpiper(home, "files", "put", path).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			var asked []string
			client := wiretest.Client{Version: version, Fill: func(message string) map[string]any {
				if asked = append(asked, message); len(asked) == 1 {
					return map[string]any{"sex": "Female", "reasons": "work", "consent": true}
				}
				if calls, err := os.ReadFile(record); err != nil || len(calls) > 0 {
					t.Errorf("before the approval the server was called: %s %v", calls, err)
				}
				return map[string]any{"approve": true}
			}}
			const code = extractLetter + `
from servers import crm
form = forms.open("permit.html").fill(result, profile={"nationality": "France"})
form.save("filled.html")
sent = crm.upsert_contact(email=form.values["contact"], name=form.values["given_names"] + " " + form.values["surname"])
result = {"review": form.review(), "sent": sent}`
			text, failed, err := client.Start(t, sandpiper(home, "serve")).
				Call("execute_code", map[string]any{"code": code, "timeout_seconds": 60})
			if err != nil || failed {
				t.Fatalf("%s %v", text, err)
			}
			if len(asked) != 2 || !strings.Contains(asked[0], "To fill in permit.html, 3 more values are needed") ||
				!strings.Contains(asked[1], `"email": "zoe.kowalczyk@example.com"`) {
				t.Errorf("asked %q", asked)
			}
			for _, part := range []string{"| E-mail: | [EMAIL_", "| Surname: | [", "| Nationality: | Poland | data |",
				"| Reasons: | work | answer |"} {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in %s", part, text)
				}
			}
			for _, value := range privateValues {
				if strings.Contains(text, value) {
					t.Errorf("the model sees %q in %s", value, text)
				}
			}
			sent, err := os.ReadFile(record)
			if err != nil || strings.Count(string(sent), "zoe.kowalczyk@example.com") != 1 {
				t.Errorf("the server received %s %v", sent, err)
			}
		})
	}
}
