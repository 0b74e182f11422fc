package disguise_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOrdinaryTextHasNothingInDisguise counts what is found in texts that nobody
// disguised anything in: the development cases of detection, what servers say of
// their tools, the files that tests of this repository read, and our own sources.
func TestOrdinaryTextHasNothingInDisguise(t *testing.T) {
	f := busy(t)
	for _, c := range []struct {
		name  string
		texts []string
		most  int
	}{
		{"cases", lines(t, "../../../../shared/data/pii/cases-dev.jsonl.gz"), 12},
		{"definitions", lines(t, "../../../../shared/data/search/tools.jsonl.gz"), 0},
		{"testdata", files(t, "../..", "testdata"), 4},
		{"documents", files(t, "../../../docs", ""), 0},
	} {
		n, size := 0, 0
		for _, text := range c.texts {
			size += len(text)
			for _, one := range f.Find(text) {
				n++
				t.Logf("%s: %s %.2f %.80q", c.name, one.Type, one.Score, text[one.Start:one.End])
			}
		}
		t.Logf("%s: %d texts, %d bytes, found %d", c.name, len(c.texts), size, n)
		if n > c.most {
			t.Errorf("%s: found %d, at most %d are known", c.name, n, c.most)
		}
	}
	for _, c := range ordinary(1 << 20) {
		if found := f.Find(c.text); len(found) > 0 {
			t.Errorf("%s: found %+v", c.name, found)
		}
	}
}

// lines returns the field text of lines of JSON, or if they have none the lines.
func lines(t *testing.T, name string) (texts []string) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("not here: %s", name)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var c struct{ Text string }
		if json.Unmarshal(s.Bytes(), &c) != nil || c.Text == "" {
			c.Text = s.Text()
		}
		texts = append(texts, c.Text)
	}
	return texts
}

// files returns the files below root whose path has a folder of that name.
func files(t *testing.T, root, folder string) (texts []string) {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || folder != "" && !strings.Contains(filepath.ToSlash(path), "/"+folder+"/") {
			return err
		}
		b, err := os.ReadFile(path)
		texts = append(texts, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
