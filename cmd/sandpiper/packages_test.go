package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// pandas and matplotlib from the package index work. The versions are those of
// testdata/packages. The test needs the network, so it runs only with REQUIRE_PACKAGES.
func TestPandasAndMatplotlib(t *testing.T) {
	if os.Getenv("REQUIRE_PACKAGES") == "" {
		t.Skip("REQUIRE_PACKAGES is not set")
	}
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Skip("the lock file is for linux/amd64")
	}
	dir, cache := t.TempDir(), os.Getenv("XDG_CACHE_HOME")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "packages"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("SANDPIPER_CONFIG", filepath.Join(dir, "sandpiper.yaml"))
	t.Chdir(dir)
	tell := func(args ...string) []byte {
		t.Helper()
		var out, said bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &out, &said); code != exitOK {
			t.Fatalf("%v: exit code %d: %s%s", args, code, out.Bytes(), said.Bytes())
		}
		return out.Bytes()
	}
	tell("packages", "install")
	tell("exec", "make.py")
	var got struct {
		Result struct {
			There []string // before anything was imported
			Bytes int
			Rows  int
			Top   []map[string]any
			Odd   []any
		}
		Images []struct{ Data string }
	}
	if err := json.Unmarshal(tell("exec", "--json", "plot.py"), &got); err != nil {
		t.Fatal(err)
	}
	r := got.Result
	if len(r.There) != 2 || r.Bytes < 20<<20 || r.Rows != 600_000 || len(r.Top) != 3 || r.Top[0]["city"] != "Bern" || r.Top[0]["price"] != 150000.0 {
		t.Errorf("%+v", r)
	}
	if odd, _ := json.Marshal(r.Odd); string(odd) != `[null,null,"2024-01-02T03:04:05",1.5,{"a":1},[[1,2],[3,null]]]` {
		t.Errorf("%s", odd)
	}
	if len(got.Images) != 2 {
		t.Fatalf("%d images", len(got.Images))
	}
	plot, red := decoded(t, got.Images[0].Data), decoded(t, got.Images[1].Data)
	if n := colours(plot); plot.Bounds().Dx() < 300 || n < 10 {
		t.Errorf("a plot of %v with %d colours", plot.Bounds(), n)
	}
	if n := colours(red); red.Bounds().Dx() != 40 || n != 1 {
		t.Errorf("a picture of %v with %d colours", red.Bounds(), n)
	}
}

func decoded(t *testing.T, data string) image.Image {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	i, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func colours(i image.Image) int {
	seen := map[color.Color]bool{}
	for y := range i.Bounds().Dy() {
		for x := range i.Bounds().Dx() {
			seen[i.At(x, y)] = true
		}
	}
	return len(seen)
}
