package sandpiper_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const secret = "a-token-of-32-characters-or-more"

// serve starts the program sandpiper over HTTP and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	if noSandbox != nil {
		t.Skip("code cannot be executed here:", noSandbox)
	}
	program := filepath.Join(t.TempDir(), "sandpiper")
	build := exec.Command("go", "build", "-o", program, "./cmd/sandpiper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", "--profile", "full", "--http", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "SANDPIPER_HTTP_TOKEN="+secret, "SANDPIPER_CONFIG="+allowing(t))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "MCP at "); ok {
			go func() {
				for lines.Scan() { // so that the program can write
				}
			}()
			return address
		}
	}
	t.Fatal("the program has ended")
	return ""
}

// allowing returns the path of a configuration whose policy allows schedules.
func allowing(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sandpiper.yaml")
	if err := os.WriteFile(path, []byte(allowSchedules), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDial(t *testing.T) {
	longtest.SkipSlow(t)
	url := serve(t)
	c, err := sandpiper.Dial(t.Context(), url, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Files().Write(t.Context(), "a.txt", []byte("1 2 3")); err != nil {
		t.Error(err)
	}
	r, err := c.Session("s").Execute(t.Context(), "sum(int(n) for n in read_file('a.txt').split())")
	if got := result[int](t, r, err); got != 6 {
		t.Error(got)
	}
	if s, err := c.Tools().Select(t.Context(), "add", 0, 0); err != nil || len(s.Tools) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.Execute(t.Context(), "1 / 0"); err == nil || !strings.Contains(err.Error(), "ZeroDivisionError") {
		t.Error(err)
	}
	testAreas(t, c)
	clean, _, err := c.Privacy().Sanitize(t.Context(), "ada@example.com")
	if err != nil || !strings.HasPrefix(clean, "[EMAIL_") {
		t.Errorf("%q, %v", clean, err)
	}
	_, err = c.Privacy().Restore(t.Context(), clean)
	wantError(t, err, "pii.restore")
	if _, err := c.Approvals().List(t.Context()); err == nil || !strings.Contains(err.Error(), "web page") {
		t.Error(err)
	}
	if _, err := c.ForTenant(t.Context(), "alice"); err == nil {
		t.Error("a tenant of a server")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := sandpiper.Dial(t.Context(), url, "wrong"); err == nil || !strings.Contains(err.Error(), "Unauthorized") ||
		strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong token: %v", err)
	}
}

func TestDialExplainsMissingServer(t *testing.T) {
	if _, err := sandpiper.Dial(t.Context(), "http://127.0.0.1:1/mcp", secret); err == nil || !strings.Contains(err.Error(),
		"connection refused") || strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
}

// A redirect must not take the token to another host.
func TestDialSendsNoTokenToRedirects(t *testing.T) {
	var sent []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	c, err := sandpiper.Dial(t.Context(), first.URL, secret)
	if err == nil {
		c.Close()
		t.Error("no error")
	}
	if len(sent) != 0 {
		t.Errorf("the other host got %q", sent)
	}
}
