package mcpserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Code in a sandbox can create all of these.
func TestOnlyRegularFilesAreResources(t *testing.T) {
	t.Parallel()
	s, dir := serverAndFiles(t)
	p, second := connect(t, s), connect(t, s)
	p.write("real", "fine")
	outside := filepath.Join(t.TempDir(), "outside")
	put(t, filepath.Dir(outside), "outside", []byte("secret"))
	for name, make := range map[string]func(path string) error{
		"link":   func(path string) error { return os.Symlink(outside, path) },
		"linked": func(path string) error { return os.Symlink(filepath.Dir(outside), path) },
		"fifo":   func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"\xff":   func(path string) error { return os.WriteFile(path, nil, 0o644) },
	} {
		if err := make(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.ask("resources/list", nil).uris(); len(got) != 1 || got[0] != "workspace://real" {
		t.Errorf("listed: %q", got)
	}
	for uri, why := range map[string]string{
		"workspace://link":           "symbolic link",
		"workspace://linked/outside": "symbolic link",
		"workspace://fifo":           "FIFO",
		"workspace://skills":         "directory",
		"workspace://%FF":            "UTF-8",
	} {
		if r := p.ask("resources/read", map[string]string{"uri": uri}); r.Error.Code != -32602 || !strings.Contains(r.Error.Message, why) {
			t.Errorf("%s: %+v", uri, r)
		}
	}
	// A name that is not a file can be subscribed, because it can become one.
	p.ask("resources/subscribe", map[string]string{"uri": "workspace://fifo"})
	if err := os.Remove(filepath.Join(dir, "fifo")); err != nil {
		t.Fatal(err)
	}
	second.write("fifo", "a file now")
	if r := p.next(); r.Params.URI != "workspace://fifo" {
		t.Errorf("got %+v", r)
	}
}
