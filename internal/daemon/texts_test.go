package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// A tool that declares no output and has answered with text says so in its module,
// now and after a restart.
func TestModuleDocumentsTextResult(t *testing.T) {
	dir := t.TempDir()
	scripts := map[string]upstreamtest.Script{"one": scripted("echo", "quiet")}
	cfg := passingOn(t, dir, scripts)
	d := start(t, cfg)
	if _, err := d.Servers.List(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	all, _ := d.Tenants.Modules("")
	found, err := filepath.Glob(filepath.Join(all, "*", "one"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	module := func(name string) string {
		b, err := os.ReadFile(filepath.Join(found[0], name+".py"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const documented = "All results are returned as text"
	if strings.Contains(module("echo"), documented) {
		t.Error("the module says it before there was an answer")
	}
	s := serve(t, t.Context(), d).greet()
	s.say(call("echo", `{}`))
	s.until("echo answers")
	for end := time.Now().Add(time.Minute); !strings.Contains(module("echo"), documented); {
		if time.Now().After(end) {
			t.Fatalf("the module is\n%s", module("echo"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !strings.Contains(module("echo"), "-> str:") || strings.Contains(module("quiet"), documented) {
		t.Errorf("the modules are\n%s\n%s", module("echo"), module("quiet"))
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	again := start(t, cfg)
	if _, err := again.Servers.List(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(module("echo"), documented) {
		t.Errorf("after a restart the module is\n%s", module("echo"))
	}
}
