package backup

import (
	"os"
	"regexp"
	"testing"
)

// Each file and directory of the documented data directory is either part of a backup or not: a new
// one must be decided here.
func TestBackupKnowsTheDataDirectory(t *testing.T) {
	b, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	layout := regexp.MustCompile(`(?s)\$XDG_DATA_HOME/sandpiper/\n(.*?)\$XDG_CACHE_HOME`).FindSubmatch(b)
	if layout == nil {
		t.Fatal("the data directory is not documented")
	}
	ofTenants := map[string]bool{"private": true, "workspaces": true}
	names := regexp.MustCompile(`(?m)^  ([a-z.]+)(?:/\S*)?(?:, ([a-z.]+)/?)?`).FindAllSubmatch(layout[1], -1)
	if len(names) < 12 {
		t.Fatalf("%q", names)
	}
	for _, found := range names {
		for _, name := range found[1:] {
			if _, ok := inBackup[string(name)]; !ok && len(name) > 0 && !ofTenants[string(name)] {
				t.Errorf("inBackup does not have %q", name)
			}
		}
	}
}
