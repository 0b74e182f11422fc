package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
)

// PackageLayer is a selection of Python packages that code may import.
type PackageLayer struct {
	packages.Config
	Preload []string // modules imported in the zygote
}

// The package layers that need no name in the configuration: that of sandbox.packages,
// sandbox.requirements and sandbox.wheels, and one without packages.
const (
	DefaultPackageLayer = "default"
	NoPackageLayer      = "none"
)

// Layer returns a package layer. That of an unknown name is empty.
func (c *Config) Layer(name string) PackageLayer {
	if name == DefaultPackageLayer {
		return PackageLayer{c.Packages, c.Preload}
	}
	return c.PackageLayers[name]
}

// PackageLayerNames returns the names of the layers with packages, the default first.
func (c *Config) PackageLayerNames() []string {
	names := slices.Sorted(maps.Keys(c.PackageLayers))
	if !c.Packages.IsEmpty() {
		names = slices.Insert(names, 0, DefaultPackageLayer)
	}
	return names
}

// PackageLayersInUse returns the sorted names of the layers of all tenants.
func (c *Config) PackageLayersInUse() []string {
	used := map[string]bool{}
	c.each(func(_ string, one *Config) { used[one.Environment().Layer] = true })
	return slices.Sorted(maps.Keys(used))
}

// layerKeys are the keys of a package layer, and of the default one in sandbox.
var layerKeys = map[string]key{
	"packages": {
		read: func(d *draft, s setting) error {
			return names(&d.Packages.Requirements, s, "a requirement, such as pandas or numpy==2.3.*")
		},
		structured: true,
		fixed:      func(c *Config) any { return &c.Packages.Requirements },
	},
	"requirements": {
		read:  func(d *draft, s setting) error { return directory(&d.Packages.RequirementsFile, d, s) },
		fixed: func(c *Config) any { return &c.Packages.RequirementsFile },
	},
	"wheels": {
		read:  func(d *draft, s setting) error { return directory(&d.Packages.WheelDir, d, s) },
		fixed: func(c *Config) any { return &c.Packages.WheelDir },
	},
	"preload": {
		read:       func(d *draft, s setting) error { return preload(&d.Preload, s) },
		structured: true,
		fixed:      func(c *Config) any { return &c.Preload },
	},
}

// readPackageLayers reads the named package layers.
func readPackageLayers(d *draft, s setting) error {
	if err := groups(d, s); err != nil {
		return err
	}
	d.PackageLayers = map[string]PackageLayer{}
	for _, m := range section.Members(s.node) {
		name := m.Key.GetToken().Value
		if !isName(name) || name == DefaultPackageLayer || name == NoPackageLayer {
			return fault.New(fault.Invalid, "%s: %.40q is not a valid name for a package layer: use at most 64 of a-z, 0-9, _ and -, and "+
				"not default or none", lineOf(s, m.Key), name)
		}
		file, _, _ := strings.Cut(s.from, " line ")
		f := flattener{name: file, dir: s.dir, structured: func(name string) bool { return layerKeys[name].structured }}
		for _, key := range section.Members(m.Value) {
			f.member("", key)
		}
		if f.err != nil {
			return f.err
		}
		layer, err := readPackageLayer(d.dirs, s.key+"."+name, f.list)
		if err != nil {
			return err
		}
		if layer.IsEmpty() {
			return fault.New(fault.Invalid, "%s has none of the keys packages, requirements and wheels",
				place(lineOf(s, m.Key), s.key+"."+name)).
				WithHint("the layer none, which is not configured, has no packages")
		}
		d.PackageLayers[name] = layer
	}
	return nil
}

// readPackageLayer reads the settings of a layer, whose key is at.
func readPackageLayer(of dirs, at string, settings []setting) (PackageLayer, error) {
	one := draft{dirs: of}
	for _, s := range settings {
		leaf := s.key
		s.key = at + "." + leaf
		k, ok := layerKeys[leaf]
		switch {
		case !ok:
			return PackageLayer{}, fault.New(fault.Invalid, "%s: there is no key %q%s", s.from, s.key, suggestion(leaf, layerKeys))
		case s.kind != "":
			return PackageLayer{}, fault.New(fault.Invalid, "%s: %s is a %s; it must be a single value", s.from, s.key, s.kind)
		}
		if err := k.read(&one, s); err != nil {
			return PackageLayer{}, err
		}
	}
	return PackageLayer{one.Packages, one.Preload}, nil
}

// checkPackageLayer rejects the name of a layer that is not configured. Without default
// packages, the layers default and none are the same.
func (d *draft) checkPackageLayer() error {
	if s := d.given["sandbox.package_layer"]; s.from != "" {
		allowed := append([]string{DefaultPackageLayer, NoPackageLayer}, slices.Sorted(maps.Keys(d.PackageLayers))...)
		if err := oneOf(&d.PackageLayer, s, allowed...); err != nil {
			return fault.New(fault.Invalid, "%s", fault.Message(err)).
				WithHint("layers are configured below sandbox.package_layers; see docs/packages.md")
		}
	}
	if d.PackageLayer == "" || d.PackageLayer == NoPackageLayer && d.Packages.IsEmpty() {
		d.PackageLayer = DefaultPackageLayer
	}
	return nil
}

// placePackages sets the lock file of each layer, in dir, and the directory of installed layers.
func (c *Config) placePackages(dir string) {
	installed := filepath.Join(c.CacheDir, "packages")
	c.Packages.LockFile, c.Packages.LayerDir = filepath.Join(dir, packages.LockName), installed
	for name, l := range c.PackageLayers {
		l.LockFile, l.LayerDir = filepath.Join(dir, packages.LockNameOf(name)), installed
		c.PackageLayers[name] = l
	}
}
