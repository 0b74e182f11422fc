package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const emptyAPI = `{"openapi": "3.1.0", "info": {"title": "API", "version": "1"}, "servers": [{"url": "https://api.example.com"}], ` +
	`"paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "a"}}}}}}`

var (
	yamlBlock = lazyregexp.New("(?ms)^```yaml\n(.*?)^```$")
	// defaulted is a line that states its default, and that may therefore be left out.
	defaulted = lazyregexp.New(`(?m)^ +[a-z_]+: [^#\n]+# .*\b(by default|default:).*\n`)
	variable  = lazyregexp.New(`\$\{([A-Z_]+)\}`)
)

// notStarted are blocks that are no configuration of a daemon, or need what a test does not have, by
// page and beginning.
var notStarted = map[string]string{
	"hosts.md: sandbox: {backend: auto}":                 "gVisor and a virtual machine",
	"openapi.md: auth:":                                  "a part of a configuration",
	"policy.md: policy:\n  rules:\n    - {server":        "gVisor and a virtual machine",
	"policy.md: when:":                                   "conditions",
	"policy.md: - {tool":                                 "a rule",
	"search.md: search: {embeddings: {provider: local}}": "a model",
	"workflows.md: # late_orders.yaml":                   "a workflow",
	"workflows.md: name: late_orders":                    "a workflow",
}

// Each configuration in docs starts a daemon, as it stands and without the lines that state their default.
func TestDocumentedConfigurationsStart(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	started, skipped := 0, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range yamlBlock().FindAllStringSubmatch(string(text), -1) {
			for j, c := range configurations(b[1]) {
				if isNotStarted(filepath.Base(page), c) {
					skipped++
					continue
				}
				started++
				t.Run(fmt.Sprintf("%s/%d.%d", filepath.Base(page), i, j), func(t *testing.T) { startDocumented(t, c) })
			}
		}
	}
	if started < 50 || skipped != len(notStarted) {
		t.Errorf("%d configurations were started, and %d were not, which should be %d", started, skipped, len(notStarted))
	}
}

func isNotStarted(page, block string) bool {
	for beginning := range notStarted {
		if strings.HasPrefix(page+": "+block, beginning) {
			return true
		}
	}
	return false
}

// configurations returns the configurations of a block: one of its lines each, or the whole block, and the
// block without the lines that state their default.
func configurations(block string) (all []string) {
	if first, rest, _ := strings.Cut(block, "\n"); strings.Contains(first, "one of these") {
		return strings.Split(strings.TrimSpace(rest), "\n")
	}
	all = append(all, block)
	if short := defaulted().ReplaceAllString(block, ""); short != block {
		all = append(all, short)
	}
	return all
}

// startDocumented starts a daemon with a configuration whose files exist and whose variables are set, and
// sends it a request.
func startDocumented(t *testing.T, text string) {
	dir := t.TempDir()
	var clients strings.Builder
	for _, m := range variable().FindAllStringSubmatch(text, -1) {
		fmt.Fprintf(&clients, "%s=%s_and_enough_letters_for_a_token\n", m[1], m[1])
	}
	text = strings.NewReplacer("/etc/sandpiper/tls", dir, "/run/secrets", dir, "prometheus: true", `prometheus: "127.0.0.1:0"`,
		"127.0.0.1:9464", "127.0.0.1:0").Replace(text)
	if err := os.Mkdir(filepath.Join(dir, "tools_registry"), 0o700); err != nil {
		t.Fatal(err)
	}
	ca := accesstest.NewCA(t, "ca")
	accesstest.Write(t, ca.Server(nil), filepath.Join(dir, "fullchain.pem"), filepath.Join(dir, "key.pem"))
	for _, name := range []string{"clients.pem", "acme.pem"} {
		accesstest.Replace(t, filepath.Join(dir, name), accesstest.PEM(ca.Cert))
	}
	for name, content := range map[string]string{
		".env": clients.String(), "sandpiper.yaml": text, "github.json": emptyAPI, "api.yaml": emptyAPI,
		"tools_registry/full_catalog.json": `{"tools": []}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := startServing(t, "", "", "--config", filepath.Join(dir, "sandpiper.yaml"))
	d.mayFail = true // servers and services that do not exist
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}}
	t.Cleanup(client.CloseIdleConnections)
	if strings.Contains(text, "acme:") && !strings.Contains(text, "# acme:") {
		return // it has no certificate
	}
	r, err := (&visitor{daemonProcess: d}).request(t.Context(), http.MethodPost, strings.NewReader(clientHello))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK && (res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "http:")) {
		t.Errorf("the daemon answers %s", res.Status)
	}
}
