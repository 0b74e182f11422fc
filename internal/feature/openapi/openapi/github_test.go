package openapi_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi/openapitest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func github(t testing.TB, url string) *openapi.API {
	t.Helper()
	a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{
		Document: filepath.Join("testdata", "github.json"), URL: url, Auth: openapi.Auth{Bearer: "sesame-open"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestGitHubSubset(t *testing.T) {
	s := openapitest.Serve(t, filepath.Join("testdata", "github.json"), "sesame-open")
	a := github(t, s.URL)
	tools := definitions(t, a)
	if len(tools) != 17 {
		t.Errorf("%d tools", len(tools))
	}
	list, err := call(t.Context(), a, "issues_list_for_repo", `{"owner":"acme","repo":"app","labels":"a b,c","pages":9}`)
	if err != nil || strings.Count(list, `"comments_url"`) != openapitest.Pages {
		t.Errorf("three pages: %s, %v", list, err)
	}
	last := s.Requests()[len(s.Requests())-1]
	if want := "/repos/acme/app/issues?labels=a+b%2Cc&page=3"; last.URI != want ||
		last.Header.Get("Authorization") != "Bearer sesame-open" {
		t.Errorf("last page: %s %v; want %s", last.URI, last.Header, want)
	}
	if _, err := call(t.Context(), a, "issues_create", `{"owner":"acme","repo":"app","body":{"title":"x"}}`); err != nil {
		t.Error(err)
	}
	wantFailure(t, a, "issues_create", `{"owner":"acme","repo":"app","body":{"body":"x"}}`,
		`answered 422 Unprocessable Entity: Validation Failed ["title"]`)
	wantFailure(t, a, "repos_get_content", `{"owner":"acme","repo":"app","path":"../../../user"}`, `a path with the segment ".."`)
	if _, err := call(t.Context(), a, "repos_get_content", `{"owner":"acme","repo":"app","path":"docs/a b.md"}`); err != nil {
		t.Error(err)
	}
	if got := s.Requests()[len(s.Requests())-1].URI; got != "/repos/acme/app/contents/docs%2Fa%20b.md" {
		t.Error(got)
	}
	wantResult(t, a, "issues_unlock", `{"owner":"acme","repo":"app","issue_number":1}`, "null")
	wantFailure(t, a, "repos_download_tarball_archive", `{"owner":"acme","repo":"app","ref":"main"}`,
		"redirects to another host, codeload.example.invalid")
	wantFailure(t, a, "repos_upload_release_asset", `{"owner":"acme","repo":"app","release_id":1,"name":"x","body":"AAA="}`,
		"has this operation at uploads.github.com, which is not one of its hosts")
	if got, err := call(t.Context(), a, "meta_get_zen", ``); err != nil || !strings.HasPrefix(got, `"`) {
		t.Errorf("%s, %v", got, err)
	}
	wantFailure(t, github(t, s.URL+"/no"), "meta_get_zen", ``, "answered 404 Not Found: 404 page not found")
	s.Token = "another"
	_, err = call(t.Context(), a, "emojis_get", ``)
	if f, ok := errors.AsType[*tool.Failure](err); !ok || !strings.Contains(f.Message,
		"answered 401 Unauthorized: Bad credentials (the API rejected the configured") || string(f.Data) == "" {
		t.Errorf("a revoked token: %v", err)
	}
}

func TestMethodAnnotations(t *testing.T) {
	tools := definitions(t, github(t, "http://127.0.0.1:1"))
	for name, want := range map[string]string{"issues_get": "reads", "issues_create": "writes", "issues_lock": "writes again",
		"issues_unlock": "destroys again"} {
		h, got := tools[name].Hints, "writes"
		if *h.ReadOnly {
			got = "reads"
		} else if h.Destructive != nil && *h.Destructive {
			got = "destroys"
		}
		if h.Idempotent != nil && *h.Idempotent {
			got += " again"
		}
		if got != want {
			t.Errorf("%s %s; want %s", name, got, want)
		}
	}
	about := tools["issues_list_for_repo"].Description
	for _, want := range []string{"List repository issues.\n\n", "\n\nGET /repos/{owner}/{repo}/issues\n",
		"request further pages with page.", "pages=N follows"} {
		if !strings.Contains(about, want) {
			t.Errorf("%q is not in %s", want, about)
		}
	}
	if strings.Contains(tools["search_issues_and_pull_requests"].Description, "pages=N") {
		t.Error("pages of a value that is not a list were joined")
	}
}

// githubDocument returns the complete OpenAPI document of GitHub, if it is installed.
func githubDocument(t testing.TB) string {
	if t, ok := t.(*testing.T); ok {
		return wiretest.Installed(t, "@octokit/openapi").Path("@octokit/openapi/generated/api.github.com.json")
	}
	path := filepath.Join(os.Getenv("MCP_CLIENTS"), "@octokit/openapi/generated/api.github.com.json")
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	return path
}

func TestGitHub(t *testing.T) {
	a, err := openapi.Open(t.Context(), openapi.Config{Source: openapi.Source{Document: githubDocument(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	tools, notes, err := a.Tools(t.Context(), "github")
	if err != nil || len(tools) < 1200 || len(notes) > 0 {
		t.Errorf("%d tools, %q, %v", len(tools), notes, err)
	}
	for _, d := range tools {
		if string(d.Input) == "true" || len(d.Input) > 32<<10 || len(d.Output) > 8<<10 {
			t.Errorf("%s has %d bytes of input and %d of output", d.Tool, len(d.Input), len(d.Output))
		}
	}
}

// BenchmarkGitHub parses the document of GitHub and creates its definitions.
func BenchmarkGitHub(b *testing.B) {
	path := githubDocument(b)
	for b.Loop() {
		a, err := openapi.Open(b.Context(), openapi.Config{Source: openapi.Source{Document: path}})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := a.Tools(b.Context(), "github"); err != nil {
			b.Fatal(err)
		}
		a.Close()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-the-system")
}

// BenchmarkSearchGitHub searches the operations of GitHub.
func BenchmarkSearchGitHub(b *testing.B) {
	a, err := openapi.Open(b.Context(), openapi.Config{Source: openapi.Source{Document: githubDocument(b)}})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	tools, _, err := a.Tools(b.Context(), "github")
	if err != nil {
		b.Fatal(err)
	}
	c, err := catalog.Open(catalog.Config{Dir: b.TempDir(), Servers: []catalog.Configured{{Name: "github"}}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Put(b.Context(), "github", catalog.Listing{Tools: tools}); err != nil {
		b.Fatal(err)
	}
	queries := []string{"list the issues of a repository", "create a pull request", "who starred this", "upload a release asset",
		"delete branch protection"}
	now := c.Now()
	now.Search("", "", 1) // builds the index
	for i := 0; b.Loop(); i++ {
		if _, n := now.Search(queries[i%len(queries)], "", 10); n == 0 {
			b.Fatal("nothing found")
		}
	}
}
