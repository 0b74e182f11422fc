package main

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// writeWheel writes the wheel of a package with one module.
func writeWheel(t *testing.T, dir, name, module string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name+"-1.0-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for file, text := range map[string]string{
		name + ".py":                     module,
		name + "-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		name + "-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		name + "-1.0.dist-info/RECORD":   "",
	} {
		w, err := z.Create(file)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// layersDir returns a directory with two wheels, base and science, and a configuration in
// which they are the default package layer and the layer science.
func layersDir(t *testing.T, more string) (config string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"base", "science"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		writeWheel(t, filepath.Join(dir, name), name+"pack", "marker = 'of "+name+"'*3\n")
	}
	file := filepath.Join(dir, "sandpiper.yaml")
	if err := os.WriteFile(file, []byte(more+`
sandbox:
  wheels: base
  package_layers: {science: {wheels: science, preload: [sciencepack]}}
tiers:
  free: {tenants: ["free*"]}
  bare: {tenants: ["bare*"], sandbox: {package_layer: none}}
  pro: {tenants: ["pro*"], sandbox: {package_layer: science}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// listed returns the answer to tools/list.
func (v *visitor) listed() string {
	v.t.Helper()
	res := v.must(v.send(v.t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+aboutClient+`}}`, "Mcp-Method",
		"tools/list"))
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(b)
}

// searchPackages looks for the package of the layer science in everything that code can reach.
const searchPackages = `
import gc, importlib.util, os, sys
found = []
if importlib.util.find_spec("sciencepack"): found.append("it can be imported")
for root in ["/"] + sys.path:
    for dir, dirs, files in os.walk(root or "."):
        found += [os.path.join(dir, f) for f in dirs + files if "sciencepack" in f]
for path in ("/packages/sciencepack.py", "/proc/1/root/packages", "/proc/self/root/packages/sciencepack.py", "/packages/../packages/sciencepack.py"):
    if os.path.exists(path): found.append(path)
found += [name for name in sys.modules if "sciencepack" in name]
found += [type(o).__name__ for o in gc.get_objects() if isinstance(o, dict) and "of science" in str(o.get("marker"))]
sorted(os.listdir("/packages")) if os.path.exists("/packages") else [], found
`

// Tenants import the packages of their tier's layer only. Those of another layer are no file,
// no preloaded module and no worker of a tenant, also while both run code, and a live session
// loses them with the tier.
func TestPackageLayersIsolateTenants(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	tokens := map[string]string{"free1": "0123456789-of-free1", "bare1": "0123456789-of-bare1", "pro1": "0123456789-of-pro1",
		"pro2": "0123456789-of-pro2"}
	file := layersDir(t, fmt.Sprintf("http: {tokens: {free1: %s, bare1: %s, pro1: %s, pro2: %s}}", tokens["free1"], tokens["bare1"],
		tokens["pro1"], tokens["pro2"]))
	cli := func(args ...string) string {
		t.Helper()
		out, err := sandpiper(filepath.Dir(file), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	cli("packages", "lock")
	cli("packages", "install")
	d := startServing(t, "", "", "--config", file)
	as := func(uid string) *visitor { return d.visit("Authorization", "Bearer "+tokens[uid]) }
	pro, other, free, bare := as("pro1"), as("pro2"), as("free1"), as("bare1")

	const used = `import sciencepack; sciencepack.marker`
	for range 5 { // with workers that were bound in advance for each tenant
		for name, v := range map[string]*visitor{"pro1": pro, "pro2": other} {
			if got := v.value(used); got != `"of scienceof scienceof science"` {
				t.Errorf("%s imports %s", name, got)
			}
		}
		if got := pro.value(searchPackages); !strings.Contains(got, "it can be imported") || !strings.Contains(got,
			"/packages/sciencepack.py") || !strings.Contains(got, `"sciencepack"`) {
			t.Errorf("the search misses what is there: %s", got)
		}
		if got := free.value(searchPackages); got != `[["__pycache__","basepack-1.0.dist-info","basepack.py"],[]]` {
			t.Errorf("free finds %s", got)
		}
		if got := bare.value(searchPackages); got != `[[],[]]` {
			t.Errorf("bare finds %s", got)
		}
	}
	for name, v := range map[string]*visitor{"free": free, "bare": bare} {
		if about := v.listed(); strings.Contains(about, "sciencepack") || strings.Contains(about, "basepack") != (name == "free") {
			t.Errorf("the tools of %s: %s", name, about)
		}
		got := v.answer(`{"code":"import sciencepack"}`)
		if !strings.Contains(got, "No module named 'sciencepack'") || !strings.Contains(got, "ModuleNotFoundError") ||
			!strings.Contains(got, "ask the operator to run `sandpiper packages add`") || strings.Contains(got, "science\\\"") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if about := pro.listed(); !strings.Contains(about, "standard library and sciencepack") {
		t.Errorf("the tools of pro: %s", about)
	}
	if got := pro.answer(`{"code":"import basepack"}`); !strings.Contains(got, "No module named 'basepack'") {
		t.Errorf("a layer contains the default packages: %s", got)
	}

	// A live session of a tenant that loses the layer.
	if got := pro.answer(`{"session_id":"s","code":"import sciencepack as kept\nkept.marker"}`); !strings.Contains(got, "of science") {
		t.Fatal(got)
	}
	d.env = append(d.env, "SANDPIPER_CONFIG="+file)
	d.command(t, "tenant", "tier", "pro1", "free")
	time.Sleep(1100 * time.Millisecond) // the time in which daemons notice
	if got := pro.answer(`{"session_id":"s","code":"kept.marker"}`); !strings.Contains(got, "NameError") || !strings.Contains(got,
		"restarted") {
		t.Errorf("the session after the change of the tier: %s", got)
	}
	if got := pro.value(searchPackages); !strings.HasSuffix(got, `,[]]`) {
		t.Errorf("after the change of the tier: %s", got)
	}
	if got := other.value(used); !strings.Contains(got, "of science") {
		t.Errorf("another tenant of the layer: %s", got)
	}
}
