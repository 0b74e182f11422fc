package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const packageLayers = `
tiers:
  free: {sandbox: {package_layer: none}}
  pro: {sandbox: {package_layer: science}}
  default: {}
tenants:
  bob: {tier: pro, sandbox: {package_layer: own_2}}
sandbox:
  packages: [requests]
  preload: [requests]
  package_layers:
    science: {packages: [pandas, "numpy==2.5.*"], preload: [pandas]}
    own_2: {wheels: wheels}
    unused: {requirements: wanted.txt}
`

func TestPackageLayersOfTenants(t *testing.T) {
	src, dir := sources(t, map[string]string{"work/sandpiper.yaml": packageLayers})
	c := load(t, src)
	for _, one := range []struct{ uid, tier, want string }{
		{"a", "free", "none"}, {"b", "pro", "science"}, {"c", "", "default"}, {"bob", "", "own_2"}, {"bob", "free", "own_2"},
	} {
		if got := c.For(id(t, one.uid), one.tier).PackageLayer; got != one.want {
			t.Errorf("%s of tier %q has the layer %q, want %q", one.uid, one.tier, got, one.want)
		}
	}
	if diff := cmp.Diff([]string{"default", "none", "own_2", "science"}, c.PackageLayersInUse()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"default", "own_2", "science", "unused"}, c.PackageLayerNames()); diff != "" {
		t.Error(diff)
	}
	science, own, unused, none := c.Layer("science"), c.Layer("own_2"), c.Layer("unused"), c.Layer("none")
	work := filepath.Join(dir, "work")
	if science.LockFile != filepath.Join(work, "pylock.sandpiper-science.toml") || science.LayerDir != c.Packages.LayerDir ||
		!cmp.Equal(science.Requirements, []string{"pandas", "numpy==2.5.*"}) || !cmp.Equal(science.Preload, []string{"pandas"}) {
		t.Errorf("science: %+v", science)
	}
	if own.WheelDir != filepath.Join(work, "wheels") || own.Preload != nil || unused.RequirementsFile != filepath.Join(work, "wanted.txt") {
		t.Errorf("own: %+v, unused: %+v", own, unused)
	}
	if first := c.Layer("default"); !cmp.Equal(first.Requirements, []string{"requests"}) || !cmp.Equal(first.Preload,
		[]string{"requests"}) || first.LockFile != c.Packages.LockFile {
		t.Errorf("default: %+v", first)
	}
	if !none.IsEmpty() || none.Preload != nil {
		t.Errorf("none: %+v", none)
	}
}

func TestOnePackageLayerWithoutConfiguration(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "sandbox: {packages: [pandas]}\ntiers: {free: {profile: lean}}\n"})
	c := load(t, src)
	if diff := cmp.Diff([]string{"default"}, c.PackageLayersInUse()); diff != "" || c.PackageLayer != "default" {
		t.Error(c.PackageLayer, diff)
	}
	src, _ = sources(t, map[string]string{"work/sandpiper.yaml": "sandbox: {preload: [decimal], package_layers: {science: {packages: " +
		"[x]}}}\ntiers: {free: {sandbox: {package_layer: none}}}\n"})
	c = load(t, src) // none and an empty default are one layer
	if diff := cmp.Diff([]string{"default"}, c.PackageLayersInUse()); diff != "" || c.For(id(t, "a"), "free").PackageLayer != "default" {
		t.Error(c.PackageLayer, diff)
	}
}

func TestPackageLayersAreChecked(t *testing.T) {
	const science = "sandbox: {package_layers: {science: {packages: [pandas]}}}\n"
	for text, want := range map[string]string{
		"sandbox: {package_layer: science}": `sandpiper.yaml line 1: sandbox.package_layer is ` +
			`"science"; it must be default or none`,
		science + "tiers:\n  pro:\n    sandbox: {package_layer: scince}\n": `sandpiper.yaml line 4: sandbox.package_layer is "scince"; ` +
			`it must be default, none or science`,
		science + "tenants:\n  bob:\n    sandbox: {package_layer: gone}\n": `sandpiper.yaml line 4: sandbox.package_layer is "gone"`,
		"sandbox:\n  package_layers: [a]": "sandpiper.yaml line 2: sandbox.package_layers must " +
			"contain settings by name",
		"sandbox:\n  package_layers: {Big: {packages: [x]}}": `sandpiper.yaml line 2: "Big" is not a valid name for a ` +
			`package layer`,
		"sandbox:\n  package_layers: {none: {packages: [x]}}": `sandpiper.yaml line 2: "none" is not a valid name for a ` +
			`package layer`,
		"sandbox:\n  package_layers: {default: {packages: [x]}}": `"default" is not a valid name for a package layer`,
		"sandbox:\n  package_layers:\n    a: {}": "sandbox.package_layers.a (sandpiper.yaml line 3) has none " +
			"of the keys packages, requirements and wheels",
		"sandbox:\n  package_layers:\n    a: 5":              "sandbox.package_layers.a (sandpiper.yaml line 3)",
		"sandbox:\n  package_layers:\n    a: {preload: [x]}": "has none of the keys",
		"sandbox:\n  package_layers:\n    a:\n      pakages: [x]": `sandpiper.yaml line 4: there is no key ` +
			`"sandbox.package_layers.a.pakages"; did you mean "packages"?`,
		"sandbox:\n  package_layers:\n    a: {packages: pandas}": "sandpiper.yaml line 3: sandbox.package_layers.a.packages " +
			"must be a list",
		"sandbox:\n  package_layers:\n    a: {packages: [x], preload: [1x]}": `sandbox.package_layers.a.preload contains "1x"`,
		"tiers: {free: {sandbox: {package_layers: {a: {packages: [x]}}}}}":   "sandbox.package_layers applies to all tenants",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text})
		if _, err := config.Load(src); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestProjectCannotSetPackageLayers(t *testing.T) {
	src := project(t, map[string]string{
		"home/.config/sandpiper/sandpiper.yaml": "sandbox: {package_layer: none, packages: [x]}\n",
		"work/sandpiper.yaml":                   "sandbox: {package_layer: default, package_layers: {a: {packages: [y]}}}\n",
	})
	trust(t, src)
	c := load(t, src)
	if c.PackageLayer != "none" || len(c.PackageLayers) > 0 {
		t.Errorf("%s %v", c.PackageLayer, c.PackageLayers)
	}
}
