package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link of the site leads to a page and a heading of it.
func TestSite(t *testing.T) {
	out := t.TempDir()
	if err := build(out); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, pattern := range []string{"*.html", "docs/*"} {
		files, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			pages[f] = string(data)
		}
	}
	links := 0
	for from, text := range pages {
		for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			to := from
			if file != "" {
				to = filepath.Join(filepath.Dir(from), file)
			}
			if target, found := pages[to]; !found || anchor != "" && !strings.Contains(target, `id="`+anchor+`"`) {
				t.Errorf("%s: %s leads nowhere", from, m[1])
			}
		}
	}
	if len(pages) < 50 || links < 500 {
		t.Errorf("the site has %d pages and %d links", len(pages), links)
	}
}
