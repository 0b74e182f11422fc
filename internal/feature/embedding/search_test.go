package embedding

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model/modeltest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// meant starts a daemon with two described tools and a model at an endpoint.
func meant(t *testing.T, at *modeltest.Endpoint) *daemon.Daemon {
	t.Helper()
	c := load(t, map[string]string{
		"work/tools.json": `{"categories": {"all": {"tools": {
			"umbrella": {"mcp_server": "skies", "description": "Says whether precipitation is expected."},
			"invoice": {"mcp_server": "ledger", "description": "Asks a customer for payment."}}}}}`,
		"work/sandpiper.yaml": "catalog: [tools.json]\nsearch: {embeddings: {provider: openai, url: '" + at.URL +
			"/v1', model: small, api_key: '${KEY}', timeout: 10s}}\n",
	}, "KEY="+modeltest.Key)
	d, err := daemon.New(daemon.Config{
		Config:   *c,
		Version:  "v1",
		Backend:  func(context.Context) (sandbox.Backend, error) { return fake.New(fake.Config{}), nil },
		Features: []daemon.Feature{Feature().Feature},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.Warm()
	return d
}

func find(t *testing.T, d *daemon.Daemon, q lookup.Query) []string {
	t.Helper()
	found, err := d.Find.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range found.Tools {
		names = append(names, h.Name)
	}
	return names
}

func TestSearchUsesEmbeddings(t *testing.T) {
	at := modeltest.Serve(t)
	d := meant(t, at)
	wait(t, func() bool { m := d.Find.Servers().SemanticSearch; return m != nil && m.Known == 2 && m.Reason == "" })
	// Parts of words, which is as much as this model understands of meaning.
	const query = "precipitatoin xpected"
	if got := find(t, d, lookup.Query{Text: query}); len(got) == 0 || got[0] != "umbrella" {
		t.Errorf("found %q", got)
	}
	if !slices.Contains(at.Texts(), query) {
		t.Errorf("the model was not asked: %q", at.Texts())
	}
	find(t, d, lookup.Query{Text: "a secret of the sandbox", FromCode: true})
	if slices.Contains(at.Texts(), "a secret of the sandbox") {
		t.Error("what code asks left for an endpoint")
	}
	b, err := json.Marshal(d.Find.Servers())
	if err != nil || !strings.Contains(string(b), `"search_by_meaning":{"model":"small","tools":2,"known":2}`) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestSearchFallsBackToKeywords(t *testing.T) {
	t.Parallel()
	at := modeltest.Serve(t)
	at.Break(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	d := meant(t, at)
	if got := find(t, d, lookup.Query{Text: "customer payment"}); len(got) == 0 || got[0] != "invoice" {
		t.Errorf("found %q", got)
	}
	wait(t, func() bool { return strings.Contains(d.Find.Servers().SemanticSearch.Reason, "status 503") })
	if err := d.Meaning.Probe(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
}

// wait polls until a condition holds.
func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to it")
		}
	}
}
