package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// The trimmed module must have every file that Install reads, with the same content.
func TestTrimKeepsWhatIsInstalled(t *testing.T) {
	longtest.SkipSlow(t)
	from, err := command("go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := trim(from, to); err != nil {
		t.Fatal(err)
	}
	installs := python.Installer()
	for _, system := range []string{"linux-amd64", "linux-arm64"} {
		data := filepath.Join("python/internal/data", system)
		text, err := os.ReadFile(filepath.Join(to, data, "files.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Files []struct {
				Name string
				Perm fs.FileMode
			}
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		kept, left := 0, 0
		for _, f := range list.Files {
			if !f.Perm.IsRegular() {
				continue
			}
			name := filepath.Join(data, f.Name)
			if !installs(f.Name) {
				for _, name := range []string{name, name + ".gz"} {
					if _, err := os.Stat(filepath.Join(to, name)); err == nil {
						t.Errorf("%s was not left out", name)
					}
				}
				left++
				continue
			}
			got, err := content(filepath.Join(to, name))
			want, wantErr := content(filepath.Join(from, name))
			if err != nil || wantErr != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs from the module's: %v, %v", name, err, wantErr)
			}
			kept++
		}
		if kept < 500 || left < 10 {
			t.Errorf("%s: %d files kept and %d left out", system, kept, left)
		}
	}
	for _, name := range []string{"go.mod", "LICENSE", "pip/internal/data/files.json", "python/internal/data/embed_linux_amd64.go"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
}

// content returns the content of an embedded file, which may be compressed.
func content(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err == nil {
		return data, nil
	}
	if data, err = os.ReadFile(name + ".gz"); err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
