package restricted

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
)

// loads loads a user's own configuration and that of a project.
func loads(t *testing.T, own, project string, environ ...string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config/sandpiper/sandpiper.yaml", own)
	write("work/sandpiper.yaml", project)
	write("work/servers/a/f.py", "")
	home := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir,
		"XDG_CONFIG_HOME=" + filepath.Join(dir, "config")}
	src := config.Sources{Dir: filepath.Join(dir, "work"), Environ: append(home, environ...), Features: []config.Section{Feature().Config}}
	files, err := config.Project(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.Trust(src.Environ, files); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProjectOnlyEnables(t *testing.T) {
	for _, c := range []struct {
		own, project, environ string
		want                  bool
	}{
		{"", "", "A=", false},
		{"sandbox: {restricted: true}", "", "A=", true},
		{"guardrails: {restricted: true}", "", "A=", true},
		{"sandbox: {restricted: true}", "sandbox: {restricted: false}", "A=", true},
		{"guardrails: {restricted: true}", "guardrails: {restricted: false}", "A=", true},
		{"", "sandbox: {restricted: true}", "A=", true},
		{"", "guardrails: {restricted: true}", "A=", true},
		{"", "", "SANDPIPER_SANDBOX_RESTRICTED=true", true},
	} {
		if got := restriction(loads(t, c.own, c.project, c.environ)); got.On() != c.want {
			t.Errorf("%q with the project's %q and %s: %v", c.own, c.project, c.environ, got)
		}
	}
}

func TestModulesWrittenByHandAreLeftOut(t *testing.T) {
	for text, want := range map[string]bool{"": true, "sandbox: {restricted: true}": false} {
		c := loads(t, text, "", "SERVERS_DIR=servers")
		if got := c.ServersDir != ""; got != want || len(c.Warnings) > 0 == want {
			t.Errorf("%s: servers in %q, %q", text, c.ServersDir, c.Warnings)
		}
	}
}
