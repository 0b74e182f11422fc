package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// TestAzureVariablesOfAnotherProgramSendNothing runs tasks and searches with the variables of an
// Azure resource in the environment, in a project and in Sandpiper's own .env, and records what
// the resource receives: in a long test in each of six ways.
func TestAzureVariablesOfAnotherProgramSendNothing(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	var mu sync.Mutex
	var received []string
	azure := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received = append(received, r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer azure.Close()
	variables := "AZURE_OPENAI_ENDPOINT=" + azure.URL + "\nAZURE_OPENAI_API_KEY=sk-test\nAZURE_OPENAI_CHAT_DEPLOYMENT_NAME=chat\nAZURE_OPENAI_EMBEDDER_NAME=embed\n"
	calculator := fmt.Sprintf("servers: {calculator: {command: %q}}\n", filepath.Join(exampleServers(t), "calculator"))
	trusted := func(t *testing.T, dir string, variables []string) {
		cmd := exec.Command("sandpiper", "trust", "--yes")
		cmd.Dir, cmd.Env = dir, variables
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, test := range longtest.Rows([]struct {
		name, own, dotenv, project string
		environ                    []string
		want                       string // part of a path that must be requested; "" if none may be
	}{
		{name: "in the environment", own: calculator, environ: strings.Fields(variables)},
		{name: "in a project", own: calculator, project: "GUARDRAILS_ENABLED=true\n" + variables},
		{name: "none in the configuration", own: calculator + "tasks: {model: none}\nsearch: {embeddings: none}\n", dotenv: variables},
		{name: "other ones in .env", own: calculator, dotenv: strings.ReplaceAll(variables, azure.URL, "http://127.0.0.1:1"),
			environ: strings.Fields(variables)},
		{name: "in .env", own: calculator, dotenv: variables, want: "chat embed"},
		{name: "in the environment, and selected", own: calculator + "tasks: {model: azure}\nsearch: {embeddings: azure}\n",
			environ: strings.Fields(variables), want: "chat embed"},
	}, 0, 1, 4) {
		t.Run(test.name, func(t *testing.T) {
			received = nil
			dir := t.TempDir()
			writeAll(t, dir, map[string]string{"config/sandpiper/sandpiper.yaml": test.own, "config/sandpiper/.env": test.dotenv,
				"work/.env": test.project})
			work := filepath.Join(dir, "work")
			variables := append(sandpiper(work).Env, append(test.environ, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "HOME="+dir)...)
			if test.project != "" {
				trusted(t, work, variables)
			}
			for _, args := range [][]string{{"tools", "sync"}, {"tools", "search", "add numbers"}, {"task", "run", "Calculate 5 + 3"}} {
				cmd := exec.Command("sandpiper", args...)
				cmd.Dir, cmd.Env = work, variables
				if out, err := cmd.CombinedOutput(); err != nil && test.want == "" {
					t.Errorf("%q: %v: %s", args, err, out)
				}
			}
			got := strings.Join(received, " ")
			if (got == "") != (test.want == "") || test.want != "" && !(strings.Contains(got, "chat") && strings.Contains(got, "embed")) {
				t.Errorf("received %q", got)
			}
		})
	}
}
