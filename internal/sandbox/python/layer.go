//go:build linux && (amd64 || arm64)

package python

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// layersInside is the mount point of a layer in sandboxes.
const layersInside = "/packages"

// OpenLayer returns the installed layer after verifying it. The fault is NotFound if
// it is not installed or was modified.
func OpenLayer(ctx context.Context, cfg LayerConfig) (*Layer, error) {
	c, err := layers(cfg, nil)
	if err != nil {
		return nil, err
	}
	i, err := c.verified(ctx)
	switch {
	case err != nil:
		return nil, explain(c.dir, err)
	case i != nil:
		return c.layer(i)
	}
	if _, err := os.Lstat(c.path()); err == nil {
		return nil, fault.New(fault.NotFound, "the packages in %s were changed since they were installed", c.path())
	}
	return nil, fault.New(fault.NotFound, "the packages are not installed")
}

// EnsureLayer returns the layer, and installs the files that fill writes if it is not
// installed. The layer appears complete or not at all. Of several concurrent calls
// one installs it.
func (i *Installation) EnsureLayer(ctx context.Context, cfg LayerConfig, fill func(*LayerWriter) error) (*Layer, error) {
	c, err := layers(cfg, func(ctx context.Context, cfg Config, t *tree) error {
		t.program, t.inside, t.lenient = filepath.Join(i.dir, executable), layersInside, true
		if err := fill(&LayerWriter{t}); err != nil {
			return err
		}
		t.needs = t.libraries()
		return t.compile(ctx)
	})
	if err != nil {
		return nil, err
	}
	made, err := c.verified(ctx)
	if made == nil && err == nil {
		made, err = c.install(ctx)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil, fault.Wrap(fault.Exhausted, err, "the disk is full: the packages do not fit into %s", c.dir)
	}
	if err != nil {
		if err = explain(c.dir, err); fault.KindOf(err) == fault.Internal {
			err = fault.Wrap(fault.Internal, err, "the packages cannot be installed in %s", c.dir)
		}
		return nil, err
	}
	return c.layer(made)
}

func layers(cfg LayerConfig, fill func(context.Context, Config, *tree) error) (*cache, error) {
	dir, err := cacheDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &cache{
		dir: dir, key: cfg.Key, name: Version + "-" + cfg.Key, fill: fill, keep: true,
		cfg: Config{Dir: dir, Progress: cfg.Progress, Log: log},
	}, nil
}

// layer returns the layer in i with the host libraries that it needs.
func (c *cache) layer(i *Installation) (*Layer, error) {
	var m struct{ Needs []string }
	data, err := os.ReadFile(c.path(manifestName))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return nil, errors.Join(explain(c.dir, err), i.Close())
	}
	return &Layer{dir: i.dir, needs: m.Needs, release: i.release, intact: i.intact}, nil
}

// LayerWriter writes the files of a new layer. It is not safe for concurrent use.
type LayerWriter struct{ t *tree }

// WriteFile writes one file; name is relative, clean and without "..".
func (w *LayerWriter) WriteFile(name string, content io.Reader) error {
	if !fs.ValidPath(name) {
		return fault.New(fault.Invalid, "invalid path %q in a package: it must be relative and clean", name)
	}
	for at, r := range name {
		if r == '/' {
			if err := w.t.dir(name[:at]); err != nil {
				return err
			}
		}
	}
	return w.t.file(name, false, content)
}

// libraries returns the shared libraries that native code in t loads and t does not contain.
func (t *tree) libraries() []string {
	has, wants := map[string]bool{}, map[string]bool{}
	for _, e := range t.files {
		base := path.Base(e.Path)
		if !e.Mode.IsRegular() || !strings.HasSuffix(base, ".so") && !strings.Contains(base, ".so.") {
			continue
		}
		has[base] = true
		lib, err := elf.Open(t.path(e.Path))
		if err != nil {
			continue // not an ELF file, so nothing can load it
		}
		names, _ := lib.ImportedLibraries()
		lib.Close()
		for _, name := range names {
			wants[name] = true
		}
	}
	maps.DeleteFunc(wants, func(name string, _ bool) bool { return has[name] })
	return slices.Sorted(maps.Keys(wants))
}

// SystemLibraries returns the host libraries that native code in the layer loads, as
// Installation.SystemLibraries does, and the names of those missing on the host.
func (l *Layer) SystemLibraries(i *Installation) (found map[string]string, missing []string, err error) {
	program, err := elf.Open(filepath.Join(i.dir, executable))
	if err != nil {
		return nil, nil, fault.Wrap(fault.Internal, err, "the installed Python cannot be read")
	}
	defer program.Close()
	h := host{root: "/", found: map[string]string{}, byLib: map[string]*elf.File{}}
	defer h.close()
	for queue := slices.Clone(l.needs); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if h.byLib[name] != nil || name != path.Base(name) {
			continue
		}
		if !h.find(name, program) {
			if h.err != nil {
				return nil, nil, h.err
			}
			missing = append(missing, name)
			continue
		}
		more, err := h.byLib[name].ImportedLibraries()
		if err != nil {
			return nil, nil, fault.Wrap(fault.Internal, err, "the library %s of this host cannot be read", name)
		}
		queue = append(queue, more...)
	}
	return h.found, missing, nil
}

// StandardModules returns the names of the standard library's modules.
func (i *Installation) StandardModules(ctx context.Context) ([]string, error) {
	t := &tree{root: i.dir, program: filepath.Join(i.dir, executable)}
	out, err := t.python(ctx, "-c", "import sys; print(*sys.stdlib_module_names)").Output()
	return strings.Fields(string(out)), err
}
