// Package packages makes the operator's Python packages importable in sandboxes: it
// resolves requirements into a lock file, and installs the locked wheels as one layer.
//
// The input is a list of requirements, such as "pandas", a requirements file or a
// directory of wheels. The lock file lists one wheel of each resolved package with
// its hash. The layer is one directory with all wheels unpacked. Its name is derived
// from their hashes, and it is never modified; package python stores and verifies it.
// The operator resolves and installs; Open only opens an installed layer.
//
// All functions are safe for concurrent use, also by several processes. The package
// accepts only wheels: it builds nothing and runs no code of a package. It does not
// decide whether a package can be trusted.
package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

// Config lists the requirements and the paths of their files.
type Config struct {
	Requirements     []string // requirements, such as "numpy==2.3.*"; nil means none
	RequirementsFile string   // a requirements file, absolute; "" means none
	WheelDir         string   // a directory of wheels, absolute, used instead of any index; "" means none
	LockFile         string   // the lock file, absolute; required
	LayerDir         string   // directory of layers; required
	// Progress is called while a layer is compiled; nil means that progress is not reported.
	Progress func(stage string, done, total int)
	// Log receives a warning when a modified layer is replaced; nil means discard.
	Log *slog.Logger
}

// LockName is the name of the lock file, in the directory of the configuration.
const LockName = "pylock.sandpiper.toml"

// LockNameOf returns the name of the lock file of a named layer, a valid one of PEP 751.
func LockNameOf(layer string) string { return "pylock.sandpiper-" + layer + ".toml" }

// IsEmpty reports whether the configuration requests no packages.
func (c Config) IsEmpty() bool {
	return len(c.Requirements) == 0 && c.RequirementsFile == "" && c.WheelDir == ""
}

// Open returns the verified layer of the lock file. If there is no lock file or the
// layer is not installed, the fault is NotFound with the command to run as its hint.
func Open(ctx context.Context, cfg Config) (*python.Layer, *Lock, error) {
	lock, err := ReadLock(cfg)
	if err != nil {
		return nil, nil, err
	}
	layer, err := python.OpenLayer(ctx, cfg.layer(lock))
	if fault.KindOf(err) == fault.NotFound {
		err = missing(fault.Message(err))
	}
	if err != nil {
		return layer, lock, err
	}
	if err := recheck(cfg.layer(lock).Path(), layer.Dir()); err != nil {
		return nil, lock, errors.Join(err, layer.Close())
	}
	return layer, lock, nil
}

func missing(what string) error {
	return fault.New(fault.NotFound, "%s", what).WithHint("run `sandpiper packages install`")
}

// Stat returns the lock file if its layer exists, with the faults of Open. It is
// faster than Open because it does not verify the layer.
func Stat(cfg Config) (*Lock, error) {
	lock, err := ReadLock(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.layer(lock).Path()); fault.Inconclusive(err) {
		return nil, fault.Wrap(fault.Unavailable, err, "the packages cannot be checked")
	} else if err != nil {
		return nil, missing("the packages are not installed")
	}
	return lock, nil
}

// maxNames is the maximum number of package names in a tool description.
const maxNames = 30

// Names returns the names of the installed packages for tool descriptions: those in
// Requirements, or all of the lock file if there are other inputs. It does not verify
// the layer.
func Names(cfg Config) []string {
	if cfg.IsEmpty() {
		return nil
	}
	lock, err := Stat(cfg)
	if err != nil {
		return nil
	}
	var names []string
	if cfg.RequirementsFile == "" && cfg.WheelDir == "" {
		for _, r := range cfg.Requirements { // without their dependencies
			names = append(names, leading.FindString(r))
		}
	} else {
		for _, p := range lock.Packages {
			names = append(names, p.Name)
		}
	}
	return names[:min(maxNames, len(names))]
}

var leading = regexp.MustCompile(`^[A-Za-z0-9._-]*`)

func (c Config) layer(l *Lock) python.LayerConfig {
	return python.LayerConfig{Dir: c.LayerDir, Key: l.key(), Progress: c.Progress, Log: c.Log}
}

// readFile reads a regular file: opening a pipe would block.
func readFile(path string) ([]byte, error) {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return os.ReadFile(path)
}

// inputs returns what the lock file depends on, one line per requirement, requirements
// file or wheel.
func (c Config) inputs() ([]string, error) {
	list := slices.Clone(c.Requirements)
	if c.RequirementsFile != "" {
		data, err := readFile(c.RequirementsFile)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the requirements file %s cannot be read", c.RequirementsFile)
		}
		sum := sha256.Sum256(data)
		list = append(list, fmt.Sprintf("-r %s sha256:%s", filepath.Base(c.RequirementsFile), hex.EncodeToString(sum[:])))
	}
	if c.WheelDir != "" {
		names, err := wheelsIn(c.WheelDir)
		if err != nil {
			return nil, err
		}
		list = append(list, names...)
	}
	slices.Sort(list)
	return list, nil
}

// wheelsIn returns the names of the wheels in a directory.
func wheelsIn(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the directory of wheels %s cannot be read", dir)
	}
	var names []string
	for _, e := range all {
		if strings.HasSuffix(e.Name(), ".whl") {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, fault.New(fault.Invalid, "there is no wheel (*.whl) in %s", dir)
	}
	return names, nil
}
