package openapi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
)

// sources returns the sources of a configuration file, which is that of a project.
func sources(t *testing.T, text string) config.Sources {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + home, "USERPROFILE=" + home, "APPDATA=" + home, "LOCALAPPDATA=" + home}
	return config.Sources{Dir: dir, Environ: environ, Features: []config.Section{Feature().Config}}
}

func loads(t *testing.T, text string) (c *config.Config, dir string, err error) {
	t.Helper()
	src := sources(t, text)
	src.File = "sandpiper.yaml"
	c, err = config.Load(src)
	return c, src.Dir, err
}

func TestAPIIsAServer(t *testing.T) {
	c, dir, err := loads(t, `
catalog:
  - ./tools_registry
  - openapi: ./apis/github.yaml
    name: github_rest
    url: https://github.example/api/v3
    variables: {region: eu}
    hosts: [uploads.example]
    headers: {X-Version: "7"}
    auth:
      basic: {username: me, password: "${PASSWORD}"}
      key: {in: query, name: k, value: "${file:/run/key}"}
      client_credentials: {token_url: "https://id.example/token", client_id: c, client_secret: "${SECRET}", scopes: [a, b], audience: x}
    include: {tags: [issues], operations: ["issues/*"], methods: [GET]}
    exclude: {operations: [x]}
    category: dev
    timeout: 2m
    concurrency: 3
  - {openapi: "https://example.com/pets.json?key=1", server: EU}
  - {openapi: off.yaml, disabled: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	github := &openapi.Source{
		Document:  filepath.Join(dir, "apis", "github.yaml"),
		URL:       "https://github.example/api/v3",
		Variables: map[string]string{"region": "eu"},
		Hosts:     []string{"uploads.example"},
		Headers:   map[string]string{"X-Version": "7"},
		Auth: openapi.Auth{
			Basic: &openapi.Basic{User: "me", Password: "${PASSWORD}"},
			Key:   &openapi.APIKey{In: "query", Name: "k", Value: "${file:/run/key}"},
			Client: &openapi.ClientCredentials{TokenURL: "https://id.example/token", ID: "c", Secret: "${SECRET}",
				Scopes: []string{"a", "b"}, Audience: "x"},
		},
		Include: openapi.Filter{Tags: []string{"issues"}, Operations: []string{"issues/*"}, Methods: []string{"GET"}},
		Exclude: openapi.Filter{Operations: []string{"x"}},
	}
	pets := &openapi.Source{Document: "https://example.com/pets.json?key=1", Server: "EU"}
	want := []config.Server{
		{Name: "github_rest", Category: "dev", Timeout: 2 * time.Minute, Concurrency: 3, API: &config.API{
			Kind:     github,
			Type:     "openapi",
			Document: github.Document,
			URL:      github.URL,
			Secrets:  []string{"${PASSWORD}", "${SECRET}", "${file:/run/key}", "X-Version: 7", "c", "https://id.example/token", "me"},
			Identity: []any{github.Document, github.URL, "", github.Variables, github.Include, github.Exclude},
		}},
		{Name: "pets", API: &config.API{
			Kind:     pets,
			Type:     "openapi",
			Document: pets.Document,
			Identity: []any{pets.Document, "", "EU", pets.Variables, pets.Include, pets.Exclude},
		}},
	}
	if d := cmp.Diff(want, c.Servers); d != "" {
		t.Error(d)
	}
	if len(c.Catalogs) != 1 {
		t.Error(c.Catalogs)
	}
	if all := config.Unusable(c); len(all) != 1 || !strings.HasPrefix(all[0], "server github_rest: its document ") {
		t.Errorf("unusable: %q", all)
	}
}

func TestWrongEntries(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"catalog:\n- {openapi: x.yaml, ulr: 'http://x'}", `sandpiper.yaml line 2: an entry of catalog: has no key "ulr"; did you ` +
			`mean "url"?`},
		{"catalog: [{name: x}]", "an entry of catalog has no openapi, the path or URL"},
		{"catalog: [{openapi: x.yaml, name: \"a\\tb\"}]", "is not a valid name for an API; set name"},
		{"catalog: [{openapi: x.yaml}, {openapi: y/x.json}]", `two entries are named "x"`},
		{"catalog: [{openapi: x.yaml, auth: {bearer: secret-token}}]",
			"an entry of catalog: auth bearer must be a reference, ${NAME} or ${file:PATH}: this file is no place for it"},
		{"catalog: [{openapi: x.yaml, auth: {key: {name: X-Key, value: '${K}'}}}]", "auth key must hold both in and name, or neither"},
		{"catalog: [{openapi: x.yaml, auth: {key: {in: body}}}]", `auth key in is "body"; it must be header, query or cookie`},
		{"catalog: [{openapi: x.yaml, auth: {client_credentials: {client_secret: '${S}'}}}]", "auth client_credentials has no client_id"},
		{"catalog: [{openapi: x.yaml, auth: bearer}]", "auth must contain keys such as basic, bearer"},
		{"catalog: [{openapi: x.yaml, url: example.com}]", "url must begin with http:// or https://"},
		{"catalog: [{openapi: x.yaml, timeout: 5}]", `line 1: an entry of catalog: timeout is "5"; it must be a time such as 30s or 5m`},
		{"catalog: [{openapi: x.yaml, concurrency: 0}]", "an entry of catalog: concurrency must be a number from 1 to 1000"},
		{"catalog: [{openapi: x.yaml, variables: [a]}]", "variables must be a mapping of names to texts, such as {NAME: value}"},
		{"catalog: [{openapi: x.yaml, headers: {a: [b]}}]", "headers must hold a text for each name"},
		{"catalog: [{openapi: x.yaml, include: {tags: a}}]", "include tags must be a list of texts"},
		{"catalog: [{openapi: x.yaml, url: ''}]", "url must begin with http:// or https://"},
	} {
		if _, _, err := loads(t, c.text); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestProjectDocumentCannotDirectCredentials(t *testing.T) {
	src := sources(t, `
catalog:
  - {openapi: a.yaml, name: open}
  - {openapi: b.yaml, name: led, auth: {bearer: "${T}"}}
  - {openapi: c.yaml, name: said, url: "https://api.example", auth: {bearer: "${T}"}}
  - {openapi: d.yaml, name: asked, url: "https://api.example", auth: {client_credentials: {client_id: x, client_secret: "${T}"}}}
  - {openapi: "https://api.example/e.yaml", name: remote, auth: {bearer: "${T}"}}
`)
	files, err := config.Project(src)
	if err != nil {
		t.Fatal(err)
	}
	src.Assume = map[string]string{}
	for _, f := range files {
		src.Assume[f.Path] = f.Hash
	}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range c.Servers {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"open", "said", "remote"}) {
		t.Errorf("%v\n%v", names, c.Warnings)
	}
}
