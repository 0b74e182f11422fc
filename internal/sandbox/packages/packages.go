// Package packages makes the Python packages that the operator wants importable
// in sandboxes: it has them resolved into a lock file, and installs what that
// says as one layer.
//
// What is wanted are requirements, such as "pandas", a requirements file or a
// directory of wheels. The lock names the one wheel of each package that was
// chosen, with its hash. The layer is a directory of all of them, unpacked,
// named by those hashes and never changed; package python keeps and verifies
// it. Resolving and installing are for the operator; Open only looks.
//
// All functions may be used concurrently, by several processes too. The package
// builds nothing and runs no code of a package: only wheels are taken. It does
// not decide whether a package can be trusted.
package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Config says what is wanted, and where things are.
type Config struct {
	Requirements     []string // requirements, such as "numpy==2.3.*"; nil means none
	RequirementsFile string   // a requirements file, absolute; "" means none
	WheelDir         string   // a directory of wheels, absolute, that takes the place of every index; "" means none
	LockFile         string   // the lock file, absolute; required
	LayerDir         string   // of layers; required
	// Progress is called while a layer is compiled; nil means silence.
	Progress func(stage string, done, total int)
	// Log hears of repairs; nil discards.
	Log *slog.Logger
}

// LockName is what a lock file is called, beside the configuration.
const LockName = "pylock.sandpiper.toml"

// IsEmpty reports whether nothing is wanted.
func (c Config) IsEmpty() bool {
	return len(c.Requirements) == 0 && c.RequirementsFile == "" && c.WheelDir == ""
}

// Open returns the layer of the lock file. The fault is NotFound, and its hint
// says what to run, if there is no lock file or its layer is not installed.
func Open(ctx context.Context, cfg Config) (*python.Layer, *Lock, error) {
	lock, err := ReadLock(cfg)
	if err != nil {
		return nil, nil, err
	}
	layer, err := python.OpenLayer(ctx, cfg.layer(lock))
	if fault.KindOf(err) == fault.NotFound {
		err = missing(fault.Message(err))
	}
	return layer, lock, err
}

func missing(what string) error {
	return fault.New(fault.NotFound, "%s", what).WithHint("run `sandpiper packages install`")
}

// Stat says at once what Open would say, but for a layer that was changed.
func Stat(cfg Config) (*Lock, error) {
	lock, err := ReadLock(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.layer(lock).Path()); err != nil {
		return nil, missing("the packages are not installed")
	}
	return lock, nil
}

// most is how many packages a model is told of.
const most = 30

// Names lists the packages of the lock file, if it looks as if they are installed.
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
		for _, r := range cfg.Requirements { // what those depend on is beside the point
			names = append(names, leading.FindString(r))
		}
	} else {
		for _, p := range lock.Packages {
			names = append(names, p.Name)
		}
	}
	return names[:min(most, len(names))]
}

var leading = regexp.MustCompile(`^[A-Za-z0-9._-]*`)

func (c Config) layer(l *Lock) python.LayerConfig {
	return python.LayerConfig{Dir: c.LayerDir, Key: l.key(), Progress: c.Progress, Log: c.Log}
}

// inputs is what the lock depends on, one line for each thing wanted.
func (c Config) inputs() ([]string, error) {
	list := slices.Clone(c.Requirements)
	if c.RequirementsFile != "" {
		data, err := os.ReadFile(c.RequirementsFile)
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

// wheelsIn lists the wheels in a directory.
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
