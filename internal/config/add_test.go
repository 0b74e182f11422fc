package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var more = []config.Server{
	{Name: "files", Command: "npx", Args: []string{"-y", "@x/files", "yes", "1.0", "", "a: b", "# no", "two\nlines"},
		Env: map[string]string{"ON": "true", "K": "${K}"}, Dir: "/srv"},
	{Name: "web", URL: "https://x.example/${K}", Headers: map[string]string{"Authorization": "Bearer ${T}"}, Transport: "http",
		Timeout: 90 * time.Second, Dir: "/d"},
}

const moreText = `files:
  command: npx
  args:
    - -y
    - "@x/files"
    - "yes"
    - "1.0"
    - ""
    - "a: b"
    - "# no"
    - |-
      two
      lines
  env:
    K: ${K}
    "ON": "true"
  cwd: /srv
web:
  url: https://x.example/${K}
  headers:
    Authorization: Bearer ${T}
  type: http
  timeout: 1m30s
`

func by(indent string) string {
	return indent + strings.ReplaceAll(strings.TrimSuffix(moreText, "\n"), "\n", "\n"+indent) + "\n"
}

func TestAddServers(t *testing.T) {
	for name, tc := range map[string][2]string{
		"nothing":            {"", "servers:\n" + by("  ")},
		"other keys":         {"profile: lean # x\n", "profile: lean # x\n\nservers:\n" + by("  ")},
		"no end of the line": {"profile: lean", "profile: lean\n\nservers:\n" + by("  ")},
		"an empty section":   {"servers: # mine\nprofile: lean\n", "servers: # mine\n" + by("  ") + "profile: lean\n"},
		"others, with comments": {
			"servers:\n    # one\n    a: {command: x} # a\n\n    b:\n      command: y\n      # in b\n\n# of the profile\nprofile: lean\n",
			"servers:\n    # one\n    a: {command: x} # a\n\n    b:\n      command: y\n      # in b\n" + by("    ") +
				"\n# of the profile\nprofile: lean\n"},
		"Windows' line ends": {"servers:\r\n  a: {command: x}\r\n",
			"servers:\r\n  a: {command: x}\r\n" + strings.ReplaceAll(by("  "), "\n", "\r\n")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.AddServers("/d/sandpiper.yaml", []byte(tc[0]), more)
			if d := cmp.Diff(tc[1], string(got)); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
			all, err := config.ServersIn("/d/sandpiper.yaml", got)
			if err != nil || len(all) < 2 || !all[len(all)-2].Equal(more[0]) || !all[len(all)-1].Equal(more[1]) {
				t.Errorf("read again: %v, %v", all, err)
			}
		})
	}
}

func TestAddServersRejectsOtherFormats(t *testing.T) {
	for text, kind := range map[string]fault.Kind{
		"servers:\n  files: {command: other}\n": fault.Unavailable,
		"servers:\n- {name: a, command: x}\n":   fault.Unavailable,
		"servers: [\n":                          fault.Invalid,
		"servers:\n  a: {}\n":                   fault.Invalid,
		"profile: lean\n---\nservers:\n":        fault.Invalid,
	} {
		if got, err := config.AddServers("/d/sandpiper.yaml", []byte(text), more); fault.KindOf(err) != kind {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
