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

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/form/formtest"
)

// withPackages installs the packages of a lock file in testdata from the package index, and
// returns a function that runs a command in a copy of its directory. This needs the network, so
// the test runs only with REQUIRE_PACKAGES.
func installedPackages(t *testing.T, name string) (dir string, tell func(args ...string) []byte) {
	t.Helper()
	if os.Getenv("REQUIRE_PACKAGES") == "" {
		t.Skip("REQUIRE_PACKAGES is not set")
	}
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Skip("the lock file is for linux/amd64")
	}
	dir, cache := t.TempDir(), os.Getenv("XDG_CACHE_HOME")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("SANDPIPER_CONFIG", filepath.Join(dir, "sandpiper.yaml"))
	t.Chdir(dir)
	tell = func(args ...string) []byte {
		t.Helper()
		var out, said bytes.Buffer
		if code := run(t.Context(), all.Features(), args, strings.NewReader(""), &out, &said); code != cli.ExitOK {
			t.Fatalf("%v: exit code %d: %s%s", args, code, out.Bytes(), said.Bytes())
		}
		return out.Bytes()
	}
	tell("packages", "install")
	return dir, tell
}

// pandas and matplotlib from the package index work. The versions are those of
// testdata/packages.
func TestPandasAndMatplotlib(t *testing.T) {
	_, tell := installedPackages(t, "packages")
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
	if len(r.There) != 2 || r.Bytes < 20<<20 || r.Rows != 600_000 || len(r.Top) != 3 || r.Top[0]["city"] != "Bern" ||
		r.Top[0]["price"] != 150000.0 {
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

// Values of packages are shown as in a notebook.
func TestNotebookValuesAreShown(t *testing.T) {
	longtest.SkipSlow(t)
	_, tell := installedPackages(t, "packages")
	const frame = "import pandas as pd\ndf = pd.DataFrame({'id': range(1000), 'city': ['Bern', 'a|b'] * 500, 'x': [0.5, float('nan')] * " +
		"500})\n"
	const figure = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\n"
	for _, tc := range []struct {
		code   string
		images int
		result string // begins with
	}{
		{figure + "plt.show()", 1, `null`},
		{figure + "plt.show()\nfig", 1, `"[picture]"`},
		{figure + "fig", 1, `"[picture]"`},
		{figure + "ax", 1, `"[picture]"`},
		{figure + "display(fig, fig)", 2, `null`},
		{figure + "plt.figure()\nplt.plot([1])\nplt.show()", 2, `null`},
		{"import matplotlib.pyplot as plt\nplt.plot([1, 2])", 1, `"[picture]"`},
		{"import matplotlib.pyplot as plt\nplt.hist([1, 2], bins=2)", 1, `[[1.0,1.0],[1.0,1.5,2.0],"[picture]"]`},
		{frame + "df.x.plot()", 1, `"[picture]"`},
		{frame + "df.hist()", 1, `"[picture]"`},
		{"from PIL import Image\nImage.new('RGB', (40, 30), 'red')", 1, `"[picture]"`},
		{"%matplotlib inline\n!pip install pandas\n" + figure + "fig", 1, `"[picture]"`},
		{"```python\n" + figure + "ax\n```\nThat is a plot.", 1, `"[picture]"`},
		{frame + "df.head(2)", 0, `{"table":"| id | city | x |\n| --- | --- | --- |\n| 0 | Bern | 0.5 |\n| 1 | a\\|b |  ` +
			`|\n","shape":[2,3],"types":["int64","str","float64"]}`},
		{frame + "df.groupby('city').x.max()", 0, `{"table":"| city | x |\n| --- | --- |\n| Bern | 0.5 |\n| a\\|b |  |\n","shape":[2,1],`},
		{frame + "df.groupby('city').x.agg(['count', 'sum'])", 0,
			`{"table":"| city | count | sum |\n| --- | --- | --- |\n| Bern | 500 | 250 |\n| a\\|b | 0 | 0 |\n","shape":[2,2],`},
		{frame + "[df.head(1), 1]", 0, `[[{"id":0,"city":"Bern","x":0.5}],1]`},
		{frame + "df.id.head(2)", 0, `[0,1]`},
	} {
		var got struct {
			Result json.RawMessage
			Images []struct{ Data string }
		}
		if err := json.Unmarshal(tell("exec", "--json", "-c", tc.code), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Images) != tc.images || !strings.HasPrefix(string(got.Result), tc.result) {
			t.Errorf("%s\n%d images, result %s", tc.code, len(got.Images), got.Result)
		}
	}
	var all struct {
		Result struct {
			Table, Path, Next string
			Shape             []int
		}
	}
	if err := json.Unmarshal(tell("exec", "--json", "-c", frame+"df"), &all); err != nil {
		t.Fatal(err)
	}
	r := all.Result
	if strings.Count(r.Table, "\n") != 22 || r.Shape[0] != 1000 || r.Next == "" {
		t.Errorf("%+v", r)
	}
	if got := tell("exec", "-c", "import pandas as pd\n"+r.Next+
		"\n[len(df), list(df.columns)]"); !strings.Contains(strings.Join(strings.Fields(string(got)), ""), `[1000,["id","city","x"]]`) {
		t.Errorf("%s", got)
	}
}

// A file of 200 MB opens with the default limits, with and without preloading.
func TestPandasReadsLargeFile(t *testing.T) {
	longtest.SkipSlow(t)
	dir, tell := installedPackages(t, "packages")
	tell("exec", "--timeout", "120s", "-c", `
rows = "".join(f"{i},city{i % 500},2024-01-{i % 28 + 1:02d},{i % 100},{i * 0.37:.6f},{i * 1.13:.6f},{i * 2.71:.6f},{i * 3.14:.6f},{i * 7.77:.6f}\n" for i in range(20000))
with open("large.csv", "w") as f:
    f.write("id,city,when,qty,a,b,c,d,e\n")
    for _ in range((200 << 20) // len(rows) + 1):
        f.write(rows)`)
	const code = `
import threading
import pandas as pd
done = threading.Event()
threads = [threading.Thread(target=done.wait) for _ in range(100)]
for t in threads:
    t.start()
done.set()
df = pd.read_csv("large.csv")
[len(df) > 2_000_000, int(df.groupby("city").qty.max().max())]`
	for _, preload := range []bool{true, false} {
		if !preload {
			if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte("sandbox: {packages: [pandas, matplotlib, pillow]}\n"),
				0o600); err != nil {
				t.Fatal(err)
			}
		}
		var got struct{ Result json.RawMessage }
		if err := json.Unmarshal(tell("exec", "--json", "--timeout", "120s", "-c", code), &got); err != nil ||
			string(got.Result) != "[true,99]" {
			t.Errorf("preload %v: %s %v", preload, got.Result, err)
		}
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

// TestPicturesOfPages draws the pages of a form with PDFium from the package index.
func TestPicturesOfPages(t *testing.T) {
	dir, tell := installedPackages(t, "packages_pdfium")
	const code = `
f = forms.open("permit.pdf")
for page in f.images(dpi=72):
    show(page)
data = {"surname": "A", "given_names": "B", "dob": "1990-04-05", "passport_no": "C", "sex": "Female", "nationality": "PL", "addr_street": "D", "addr_zip": "E",
    "addr_town": "F", "contact_mail": "a@example.com", "reasons": "G", "consent": True, "signed_on": "2026-11-24"}
for page in f.fill(data).images(dpi=72):
    show(page)
show(f.images(pages=2, dpi=36)[0])
def refused(**wrong):
    try:
        return f.images(**wrong)
    except ValueError as e:
        return str(e)
result = [refused(pages=3), refused(pages=0), refused(pages=["1"]), refused(dpi=301), refused(pages=[1] * 21)]`
	path := filepath.Join(dir, "permit.pdf")
	if err := os.WriteFile(path, formtest.Application(), 0o600); err != nil {
		t.Fatal(err)
	}
	tell("files", "put", path)
	var got struct {
		Result []string
		Images []struct{ Data string }
	}
	if err := json.Unmarshal(tell("exec", "--json", "-c", code), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"there is no page 3; the document has the pages 1 to 2", "there is no page 0; the document has the pages 1 to 2",
		"there is no page '1'; the document has the pages 1 to 2",
		"dpi is 301; it must be 10 to 300", "21 pages are requested; at most 20 are drawn in one call: pass images(pages=[1, 2, …])"}
	if diff := cmp.Diff(want, got.Result); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if len(got.Images) != 5 {
		t.Fatalf("%d images", len(got.Images))
	}
	for i, size := range []image.Point{{595, 842}, {595, 842}, {595, 842}, {595, 842}, {298, 421}} {
		if is := decoded(t, got.Images[i].Data).Bounds().Max; is != size {
			t.Errorf("image %d has the size %v, want %v", i, is, size)
		}
	}
	female, consent := image.Pt(50, 622), image.Pt(50, 605)
	for i, want := range []struct {
		at     image.Point
		marked bool
	}{{female, false}, {consent, false}, {female, true}, {consent, true}} {
		if n := ink(decoded(t, got.Images[i].Data), want.at); (n > 8) != want.marked {
			t.Errorf("image %d has %d dark points in the button", i, n)
		}
	}
}

// ink counts the dark points within a button of size 12, whose position is in points from below.
func ink(img image.Image, at image.Point) (dark int) {
	height := img.Bounds().Dy()
	for x := at.X + 2; x < at.X+10; x++ {
		for y := height - at.Y - 10; y < height-at.Y-2; y++ {
			if r, g, _, _ := img.At(x, y).RGBA(); r < 0x8000 && g < 0x8000 {
				dark++
			}
		}
	}
	return dark
}
